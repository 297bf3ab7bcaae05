package server

import (
	"encoding/hex"
	"testing"
)

// The names were made with openssl and keytool, the texts are what Java's X500Principal.getName
// shows for them.
func TestSubjectsAsJavaShowsThem(t *testing.T) {
	for der, want := range map[string]string{
		// Several values in one place, and a comma that is escaped.
		"306d310b3009060355040613024445310f300d06035504080c064265726c696e310e300c06035504070c054d6974746531133011060355040a0c0a41636d652c20496e632e3118300a060355040b0c03446576300a060355040b0c034f7073310e300c06035504030c05616c696365": `CN=alice,OU=Dev+OU=Ops,O=Acme\, Inc.,L=Mitte,ST=Berlin,C=DE`,
		// Types without a name in RFC 2253.
		"302e310c300a06035504030c03626f62311e301c06092a864886f70d010901160f626f62406578616d706c652e636f6d":                                                                                 `1.2.840.113549.1.9.1=#160f626f62406578616d706c652e636f6d,CN=bob`,
		"30563112301006035504090c094d61696e2053742031310b3009060355040c0c024472310b3009060355040513023132310c300a060355042a0c03416e6e310c300a06035504040c034c6565310a300806035504030c0178": `CN=x,2.5.4.4=#0c034c6565,2.5.4.42=#0c03416e6e,2.5.4.5=#13023132,2.5.4.12=#0c024472,STREET=Main St 1`,
		"305631133011060a0992268993f22c64011916036f726731173015060a0992268993f22c64011916076578616d706c653112301006035504030c097a6b20636c69656e7431123010060a0992268993f22c6401010c023137": `UID=17,CN=zk client,DC=example,DC=org`,
		// What has to be escaped.
		"303d3120301e06035504030c172368617368205c202271756f746522203c613e3b623d6331193017060355040a0c10206c65616420616e6420747261696c20": `O=\ lead and trail\ ,CN=\#hash \\ \"quote\" \<a\>\;b\=c`,
		"303a310b3009060355040613025553310b3009060355040a13027370310c300a060355040b1303782b793110300e06035504031307416c692c206365":       `CN=Ali\, ce,OU=x\+y,O=sp,C=US`,
		// Beyond ASCII: UTF-8, and kinds of strings that Java takes for UTF-8 though they are not.
		"302b3118301606035504030c0f4ac3bc7267656e204dc3bc6c6c6572310f300d060355040a0c06e58c97e4baac":   `O=北京,CN=Jürgen Müller`,
		"3021310f300d060355040314064afc7267656e310e300c060355040a1305706c61696e":                       "O=plain,CN=J\uFFFDrgen",
		"302c3115301306035504031e0c004a00fc007200670065006e31133011060355040a1e0a0070006c00610069006e": `O=\00p\00l\00a\00i\00n,CN=\00J\00` + "\uFFFD" + `\00r\00g\00e\00n`,
		"300e310c300a06035504031403e2e378": "CN=\uFFFD\uFFFDx",
		// The order is turned round.
		"3018310a300806035504030c0161310a300806035504030c0162": `CN=b,CN=a`,
		"3000": "",
	} {
		raw, err := hex.DecodeString(der)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := subjectOf(raw); got != want || err != nil {
			t.Errorf("subjectOf(%s) = %q, %v; want %q", der, got, err, want)
		}
	}
}

func FuzzSubject(f *testing.F) {
	raw, _ := hex.DecodeString("302b3118301606035504030c0f4ac3bc7267656e204dc3bc6c6c6572310f300d060355040a0c06e58c97e4baac")
	f.Add(raw)
	f.Fuzz(func(t *testing.T, der []byte) {
		subjectOf(der)
	})
}
