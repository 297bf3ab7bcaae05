package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/cache"
)

// applyKeys sets the fields that the znodes below a layer name. A znode without data whose children are keys is none. A key that
// nothing answers to is passed over, as unknown fields of JSON are, unless strict is set. safely calls what may call a function of the
// user's, such as UnmarshalText of a field.
func applyKeys(view cache.View, layer string, value any, strict bool, safely func(func() error) error) ([]Source, error) {
	var sources []Source
	for n := range view.All() {
		key := strings.TrimPrefix(strings.TrimPrefix(n.Path, layer), "/")
		if key == "" || strings.HasPrefix(key, "_") || strings.Contains(key, "/_") {
			continue
		}
		if len(n.Data) == 0 && hasChildren(view, n.Path) {
			continue
		}
		// Spring writes "a.b" as one name, or as a/b.
		parts := strings.FieldsFunc(key, func(c rune) bool { return c == '/' || c == '.' })
		err := errUnknownKey
		if len(parts) > 0 {
			err = safely(func() error { return setKey(reflect.ValueOf(value).Elem(), parts, string(n.Data)) })
		}
		if err != nil && (strict || !errors.Is(err, errUnknownKey)) {
			return nil, &BadError{Path: n.Path, Version: n.Stat.Version, Err: err}
		}
		sources = append(sources, Source{Path: n.Path, Stat: n.Stat, Writer: writerOf(view, n)})
	}
	return sources, nil
}

// hasChildren reports whether a znode has children that are keys.
func hasChildren(view cache.View, path string) bool {
	for n := range view.Children(path) {
		if !strings.HasPrefix(n.Path[len(path):], "/_") {
			return true
		}
	}
	return false
}

// errUnknownKey is the error of a key that nothing answers to.
var errUnknownKey = errors.New("the configuration has no such key")

// setKey sets what a key names within a value.
func setKey(at reflect.Value, key []string, text string) error {
	if len(key) == 0 {
		return setText(at, text)
	}
	switch at.Kind() {
	case reflect.Pointer:
		if at.IsNil() {
			at.Set(reflect.New(at.Type().Elem()))
		}
		return setKey(at.Elem(), key, text)
	case reflect.Struct:
		if index, ok := fieldFor(at.Type(), key[0]); ok {
			return setField(at, index, key[1:], text)
		}
	case reflect.Map:
		if at.Type().Key().Kind() != reflect.String {
			return fmt.Errorf("a map with keys of type %v cannot hold it", at.Type().Key())
		}
		return setInMap(at, key, text)
	}
	return errUnknownKey
}

// setInMap sets an element of a map.
func setInMap(at reflect.Value, key []string, text string) error {
	name := reflect.ValueOf(key[0]).Convert(at.Type().Key())
	rest := key[1:]
	if !hasKeys(at.Type().Elem()) { // the whole key is the name
		name, rest = reflect.ValueOf(strings.Join(key, ".")).Convert(at.Type().Key()), nil
	}
	elem := reflect.New(at.Type().Elem()).Elem()
	if was := at.MapIndex(name); was.IsValid() {
		elem.Set(was)
	}
	err := setKey(elem, rest, text)
	if err != nil && err != errUnknownKey {
		return err
	}
	if at.IsNil() {
		at.Set(reflect.MakeMap(at.Type()))
	}
	at.SetMapIndex(name, elem)
	return err
}

// hasKeys reports whether the values of a type have keys of their own.
func hasKeys(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer:
		return hasKeys(t.Elem())
	case reflect.Struct:
		return !showsNothing(t)
	}
	return t.Kind() == reflect.Map
}

// fieldFor returns the index of the field of a struct that a name stands for. As in JSON, the fields of an embedded struct are
// among them unless a tag gives it a name, the outermost counts, and none does if there are two further in.
func fieldFor(t reflect.Type, name string) (index []int, ok bool) {
	type embedded struct {
		t     reflect.Type
		index []int
	}
	seen := map[reflect.Type]bool{}
	for level := []embedded{{t: t}}; len(level) > 0; {
		var found [][]int
		var next []embedded
		for _, e := range level {
			if seen[e.t] {
				continue
			}
			seen[e.t] = true
			for i := range e.t.NumField() {
				f, at := e.t.Field(i), append(slices.Clone(e.index), i)
				if inner, ok := promoted(f); ok {
					next = append(next, embedded{inner, at})
				} else if f.IsExported() && answersTo(f, name) {
					found = append(found, at)
				}
			}
		}
		if len(found) > 0 {
			return found[0], len(found) == 1 || len(found[0]) == 1
		}
		level = next
	}
	return nil, false
}

// promoted returns the type of an embedded struct whose fields count as those of the struct around it.
func promoted(f reflect.StructField) (reflect.Type, bool) {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return t, f.Anonymous && tag == "" && t.Kind() == reflect.Struct && !readsItself(t)
}

// setField sets what a key names within a field, and makes the embedded structs that are missing on the way there.
func setField(at reflect.Value, index []int, key []string, text string) error {
	for i, n := range index {
		if i > 0 && at.Kind() == reflect.Pointer {
			if at.IsNil() && !at.CanSet() {
				return fmt.Errorf("an embedded pointer to the unexported type %v cannot be set", at.Type().Elem())
			}
			if at.IsNil() {
				at.Set(reflect.New(at.Type().Elem()))
			}
			at = at.Elem()
		}
		at = at.Field(n)
	}
	return setKey(at, key, text)
}

// answersTo reports whether a field has a name: that of its json tag, or its own, whatever the case.
func answersTo(f reflect.StructField, name string) bool {
	tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case f.Tag.Get("json") == "-": // it has no name; `json:"-,"` is that name
		return false
	case tag != "":
		return tag == name
	}
	return strings.EqualFold(f.Name, strings.ReplaceAll(name, "-", ""))
}

// setText sets a value from its text.
func setText(at reflect.Value, text string) error {
	if at.CanAddr() && at.Addr().Type().Implements(textUnmarshaler) {
		return at.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	}
	trimmed := strings.TrimSpace(text)
	var err error
	switch at.Kind() {
	case reflect.String:
		at.SetString(text)
	case reflect.Bool:
		var b bool
		if b, err = strconv.ParseBool(trimmed); err == nil {
			at.SetBool(b)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		err = setInt(at, trimmed)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		var n uint64
		if n, err = strconv.ParseUint(trimmed, 10, at.Type().Bits()); err == nil {
			at.SetUint(n)
		}
	case reflect.Float32, reflect.Float64:
		var f float64
		if f, err = strconv.ParseFloat(trimmed, at.Type().Bits()); err == nil {
			at.SetFloat(f)
		}
	case reflect.Pointer:
		fresh := reflect.New(at.Type().Elem())
		if err = setText(fresh.Elem(), text); err == nil {
			at.Set(fresh)
		}
	case reflect.Slice:
		err = setList(at, trimmed)
	case reflect.Struct, reflect.Map:
		if text != "" {
			err = fmt.Errorf("a value of type %v cannot be set from text", at.Type())
		} // else the znode is there for others below it
	default:
		err = fmt.Errorf("a value of type %v cannot be set from text", at.Type())
	}
	var num *strconv.NumError
	if errors.As(err, &num) {
		return fmt.Errorf("%.40q is no %v: %w", text, at.Type(), num.Err)
	}
	return err
}

func setInt(at reflect.Value, text string) error {
	if at.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%.40q is no duration, such as 1m30s", text)
		}
		at.SetInt(int64(d))
		return nil
	}
	n, err := strconv.ParseInt(text, 10, at.Type().Bits())
	if err == nil {
		at.SetInt(n)
	}
	return err
}

// setList sets a list from texts with commas between them.
func setList(at reflect.Value, text string) error {
	list := reflect.MakeSlice(at.Type(), 0, 0)
	for part := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		elem := reflect.New(at.Type().Elem()).Elem()
		if err := setText(elem, strings.TrimSpace(part)); err != nil {
			return err
		}
		list = reflect.Append(list, elem)
	}
	at.Set(list)
	return nil
}
