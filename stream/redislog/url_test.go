package redislog

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for in, want := range map[string]target{
		"redis://h":                            {kind: "redis", hosts: []string{"h:6379"}},
		"redis://h:1/3":                        {kind: "redis", hosts: []string{"h:1"}, db: 3},
		"redis://h/3?db=4":                     {kind: "redis", hosts: []string{"h:6379"}, db: 4},
		"redis://[::1]:7000":                   {kind: "redis", hosts: []string{"[::1]:7000"}},
		"redis://[::1]":                        {kind: "redis", hosts: []string{"[::1]:6379"}},
		"redis://u:p%40%3A%2F@h":               {kind: "redis", hosts: []string{"h:6379"}, user: "u", password: "p@:/"},
		"redis://:p@h":                         {kind: "redis", hosts: []string{"h:6379"}, password: "p"},
		"redis+cluster://a,b:7":                {kind: "cluster", hosts: []string{"a:6379", "b:7"}},
		"redis+sentinel://u:p@a,b:7/main?db=2": {kind: "sentinel", hosts: []string{"a:26379", "b:7"}, master: "main", user: "u", password: "p", db: 2},
		"redis+sentinel://a/m?sentinel_user=x&sentinel_password=y": {kind: "sentinel", hosts: []string{"a:26379"}, master: "m", sentinelUser: "x", sentinelPassword: "y"},
	} {
		got, err := parseURL(in)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"rediss://h", "rediss+cluster://h", "rediss+sentinel://h/m", "rediss://h?skip_verify=true"} {
		got, err := parseURL(in)
		if err != nil || got.tls == nil || got.tls.InsecureSkipVerify != strings.Contains(in, "skip") {
			t.Errorf("%s: %+v %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "localhost:6379", "http://h", "redis+other://h", "redis://", "redis://h:0", "redis://h:70000", "redis://a,b",
		"redis://h/x", "redis://h?nonsense=1", "redis://h?skip_verify=true", "redis://h?sentinel_user=x", "redis+sentinel://h",
		"redis+sentinel://h/a/b", "redis+cluster://h/1", "redis+cluster://h?db=1", "redis://h?a=%", "redis://u:secret%@h",
	} {
		if err := CheckURL(in); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// Redis Cluster specification, appendix A, and what CLUSTER KEYSLOT answers.
func TestSlot(t *testing.T) {
	if crc16("123456789") != 0x31C3 {
		t.Error("CRC-16/XMODEM of 123456789 is not 0x31C3")
	}
	for partition, want := range map[int]int{0: 13907, 31: 14004} {
		if got := slot(partition); got != want {
			t.Errorf("slot(%d) = %d, want %d", partition, got, want)
		}
	}
}
