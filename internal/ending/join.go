package ending

import "strings"

// Join is errors.Join on one line: the texts are separated by semicolons. A single error is returned as it is.
func Join(errs ...error) error {
	var some []error
	for _, err := range errs {
		if err != nil {
			some = append(some, err)
		}
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	return &joined{some}
}

type joined struct{ errs []error }

func (j *joined) Error() string {
	texts := make([]string, len(j.errs))
	for i, err := range j.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (j *joined) Unwrap() []error { return j.errs }
