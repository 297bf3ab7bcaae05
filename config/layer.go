package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
)

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// readsItself reports whether a type has a method of its own that reads JSON or text.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)
}

// decodeJSON lays a JSON document over a value. A list that the document sets has nothing of the one that was there.
//
// json.Unmarshal decodes into the elements that a list has. So the document is decoded into two copies of the value: lists
// are nil in the first, and empty in the second. That tells a list that is set from one that is null or not named. If strict is
// set, an object that has a key without a place in the value is refused.
func decodeJSON[T any](data []byte, value *T, strict bool) error {
	probe, next := detached(*value), detached(*value)
	old, set, parts := wholeParts(value), wholeParts(&probe), wholeParts(&next)
	for i, part := range parts {
		set[i].SetZero()
		switch part.Kind() {
		case reflect.Slice:
			part.Set(reflect.MakeSlice(part.Type(), 0, 0))
		case reflect.Pointer:
			part.Set(reflect.New(part.Type().Elem()))
		}
	}
	if err := json.Unmarshal(data, &next); err != nil { // also if something follows the document
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if strict {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(&probe); err != nil {
		return err
	}
	for i, part := range parts {
		switch {
		case !set[i].IsZero():
			part.Set(set[i])
		case part.Kind() != reflect.Array && !part.IsNil(): // not named: null would have made it nil
			part.Set(old[i])
		}
	}
	*value = next
	return nil
}

// wholeParts returns the parts of a value that JSON sets as a whole: lists, and pointers to what reads itself and shows
// nothing, such as *big.Int. What is within maps and other lists is not among them, because JSON makes that anew.
func wholeParts[T any](value *T) []reflect.Value {
	var parts []reflect.Value
	var walk func(reflect.Value)
	walk = func(at reflect.Value) {
		switch kind := at.Kind(); {
		case readsItself(at.Type()):
		case kind == reflect.Struct:
			for field := range fields(at) {
				walk(field)
			}
		case !at.CanSet():
		case kind == reflect.Slice || kind == reflect.Array:
			parts = append(parts, at)
		case kind == reflect.Pointer && !at.IsNil():
			if elem := at.Type().Elem(); readsItself(elem) && showsNothing(elem) {
				parts = append(parts, at)
			} else {
				walk(at.Elem())
			}
		case kind == reflect.Interface && at.Elem().Kind() == reflect.Pointer && !at.Elem().IsNil():
			walk(at.Elem().Elem())
		}
	}
	walk(reflect.ValueOf(value).Elem())
	return parts
}

// detached returns a copy of a value that shares with it nothing that can be decoded into.
func detached[T any](value T) T {
	detach(reflect.ValueOf(&value).Elem())
	return value
}

// detach replaces the maps and lists in a value, and what its pointers point at, by copies.
func detach(at reflect.Value) {
	switch kind := at.Kind(); {
	case kind == reflect.Struct:
		for field := range fields(at) {
			detach(field)
		}
	case kind == reflect.Array:
		for i := range at.Len() {
			detach(at.Index(i))
		}
	case !at.CanSet():
	case kind == reflect.Pointer && !at.IsNil():
		if elem := at.Type().Elem(); showsNothing(elem) && !readsItself(elem) {
			return // no decoder can reach into it, and a copy could be unfit for use: *time.Location, *slog.Logger
		}
		fresh := reflect.New(at.Type().Elem())
		fresh.Elem().Set(at.Elem())
		detach(fresh.Elem())
		at.Set(fresh)
	case kind == reflect.Interface && !at.IsNil():
		at.Set(detachedElem(at.Elem()))
	case kind == reflect.Slice && !at.IsNil():
		fresh := reflect.MakeSlice(at.Type(), at.Len(), at.Len())
		reflect.Copy(fresh, at)
		for i := range fresh.Len() {
			detach(fresh.Index(i))
		}
		at.Set(fresh)
	case kind == reflect.Map && !at.IsNil():
		fresh := reflect.MakeMapWithSize(at.Type(), at.Len())
		for k, elem := range at.Seq2() {
			fresh.SetMapIndex(k, detachedElem(elem))
		}
		at.Set(fresh)
	}
}

// fields returns the fields of a struct. What is embedded can be set, if it is a struct or points at one, also if its type is not
// exported: decoders set its fields.
func fields(at reflect.Value) iter.Seq[reflect.Value] {
	return func(yield func(reflect.Value) bool) {
		for f, field := range at.Fields() {
			if kind := f.Type.Kind(); f.Anonymous && at.CanSet() && (kind == reflect.Struct || kind == reflect.Pointer) {
				field = reflect.NewAt(f.Type, field.Addr().UnsafePointer()).Elem()
			}
			if !yield(field) {
				return
			}
		}
	}
}

// detachedElem returns a copy of what an interface or a map holds, which cannot be set in place.
func detachedElem(elem reflect.Value) reflect.Value {
	fresh := reflect.New(elem.Type()).Elem()
	fresh.Set(elem)
	detach(fresh)
	return fresh
}

// showsNothing reports whether a type is a struct without exported fields.
func showsNothing(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !slices.ContainsFunc(reflect.VisibleFields(t), reflect.StructField.IsExported)
}
