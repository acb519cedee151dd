package bench

import (
	"strings"
	"testing"
	"time"
)

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Transport, o.Slow = "longpoll", 1 }, "--slow"},
		{func(o *Options) { o.ChannelsPerConnection = 0 }, "--channels-per-connection 0: want 1 to 100"},
		{func(o *Options) { o.ChannelsPerConnection = 2 }, "no more than --channels 1"},
		{func(o *Options) { o.Processes = []Process{{URL: "http://127.0.0.1:1/metrics"}} }, "--metrics-url http://127.0.0.1:1/metrics"},
		{func(o *Options) { o.Transport = "pigeon" }, `--transport "pigeon"`},
		{func(o *Options) { o.Prefix = "a b" }, "--prefix"},
		{func(o *Options) { o.Prefix = "" }, "--prefix"},
		{func(o *Options) { o.Subscribers = 0 }, "--subscribers 0: want at least 1"},
		{func(o *Options) { o.Channels = 0 }, "--channels 0"},
		{func(o *Options) { o.Publishers = -1 }, "--publishers -1"},
		{func(o *Options) { o.Slow = -1 }, "--slow -1"},
		{func(o *Options) { o.Size = 63 }, "--size 63: want at least 64"},
		{func(o *Options) { o.Size = MaxSize + 1 }, "--size 1048577: want at most"},
		{func(o *Options) { o.Rate = 0 }, "--rate 0"},
		{func(o *Options) { o.ConnectRate = -1 }, "--connect-rate -1"},
		{func(o *Options) { o.Duration = 0 }, "--duration 0s"},
		{func(o *Options) { o.Rate, o.Duration = 0.1, time.Second }, "less than one message"},
		{func(o *Options) { o.Life = time.Millisecond }, "--life 1ms"},
		{func(o *Options) { o.URLs = []string{"https://127.0.0.1:1"} }, "only http://"},
		{func(o *Options) { o.URLs = []string{"127.0.0.1:8080"} }, "want http://host:port"},
		{func(o *Options) { o.URLs = []string{"http://127.0.0.1:70000"} }, "is not a port"},
		{func(o *Options) { o.URLs = nil }, "--url is missing"},
		{func(o *Options) { o.Subscribers = 1 << 30 }, "ask for fewer --subscribers"},
		{func(o *Options) { o.Processes = []Process{{Name: "server", PID: 1 << 30}} }, "--pid server=1073741824"},
	} {
		o := DefaultOptions()
		tt.change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

func TestParseProcess(t *testing.T) {
	t.Parallel()
	if p, err := ParseProcess("server=42"); err != nil || p != (Process{Name: "server", PID: 42}) {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"", "42", "=42", "server=", "server=x", "server=-1", "server=0"} {
		if p, err := ParseProcess(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, p)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://127.0.0.1:8080":      "127.0.0.1:8080 127.0.0.1:8080 ",
		"http://127.0.0.1":           "127.0.0.1:80 127.0.0.1 ",
		"http://[::1]:81/base/":      "[::1]:81 [::1]:81 /base",
		"http://127.0.0.1:8080/a%20": "127.0.0.1:8080 127.0.0.1:8080 /a%20",
	} {
		got, err := resolve(url)
		if text := got.addr.String() + " " + got.host + " " + got.path; err != nil || text != want {
			t.Errorf("%s: %q, %v; want %q", url, text, err, want)
		}
	}
}
