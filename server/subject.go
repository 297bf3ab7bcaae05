package server

import (
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"strings"
)

// subjectOf returns the text of a certificate's subject, as ZooKeeper's ACLs of the scheme "x509"
// have it: Java's X500Principal.getName, which is RFC 2253 with choices of its own. Identities are
// compared as texts, so that it has to be the same to the letter.
func subjectOf(der []byte) (string, error) {
	var rdns []asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &rdns); err != nil {
		return "", err
	} else if len(rest) > 0 {
		return "", errors.New("bytes behind the subject")
	}
	var b strings.Builder
	for i := len(rdns) - 1; i >= 0; i-- {
		var attributes []attribute
		if _, err := asn1.UnmarshalWithParams(rdns[i].FullBytes, &attributes, "set"); err != nil {
			return "", err
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		for k, a := range attributes {
			if k > 0 {
				b.WriteByte('+')
			}
			a.writeTo(&b)
		}
	}
	return b.String(), nil
}

// An attribute is one part of a name.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// attributeNames are the types that RFC 2253 has a name for. All others are shown by number, and
// their values as they are encoded.
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET",
	"2.5.4.10": "O", "2.5.4.11": "OU",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

func (a *attribute) writeTo(b *strings.Builder) {
	number := a.Type.String()
	name, ok := attributeNames[number]
	if !ok {
		name = number
	}
	b.WriteString(name)
	b.WriteByte('=')
	if !ok || !isText(&a.Value) {
		b.WriteByte('#')
		b.WriteString(hex.EncodeToString(a.Value.FullBytes))
		return
	}
	text := string([]rune(string(a.Value.Bytes))) // with U+FFFD for each byte that is not UTF-8
	const blank = " \r"
	leading := len(text) - len(strings.TrimLeft(text, blank))
	trail := len(strings.TrimRight(text, blank))
	for i, r := range text {
		switch {
		case r == 0:
			b.WriteString(`\00`)
			continue
		case strings.ContainsRune(`,=+<>#;"\`, r), i < leading, i >= trail:
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
}

// isText reports whether a value is a string of a kind that Java shows as text. Whatever the kind,
// it takes the bytes for UTF-8.
func isText(v *asn1.RawValue) bool {
	const t61, general, bmp = 20, 27, 30
	if v.Class != asn1.ClassUniversal {
		return false
	}
	switch v.Tag {
	case asn1.TagPrintableString, asn1.TagUTF8String, asn1.TagIA5String, t61, general, bmp:
		return true
	}
	return false
}
