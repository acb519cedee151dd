package bench

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample is a result with every field set.
func sample() *Result {
	r := &Result{
		URLs: []string{"http://127.0.0.1:8080"}, Transport: "sse", Subscribers: 6000, Channels: 2, ChannelsPerConnection: 1, Rate: 100, Size: 500,
		DurationS: 10, LifeS: 1, SlowAsked: 5, Publishers: 2, Interrupted: true,
		Failure: "the server ended the response", PublishFailed: "publish: 503",
		Connections: 6000, Reconnects: 1000, Dropped: 3, Moved: 2, SlowCut: 1,
		Published: 998, Refused: 1, Unknown: 1,
		Expected: 2994000, Delivered: 2993990, Lost: 4, Repeated: 3, OutOfOrder: 2, Gaps: 1, InGaps: 6,
		AfterReset: 7, Violations: 8, Foreign: 9,
		Seconds: 10.5, DeliveredPerS: 285141.9, PublishedPerS: 95, BytesRead: 1700000000,
		Latency:     Delays{1.25, 2.5, 10, 20, 30.125},
		PublishCall: Delays{0.5, 0.75, 1, 1.5, 2},
		Processes: []ProcessUse{
			{"server", 4242, "", 6.5, 2.171, 10240, 37888, 40960, 41984, 4.6, false},
			{"redis", 4243, "", 0.25, 0.0835, 8192, 8192, 9216, 9216, 0, true},
		},
		Generator: Generator{CPUS: 5.25, BusiestReader: 0.95, MachineBusy: 0.99, WakeLateP99MS: 12, BehindMaxMS: 150},
	}
	r.Series = []Sample{{0.5, 284000, 1.25, 10, 30.125, 0.65, 38000}, {1, 286000, 1.5, 12, 20, 0.7, 40960}}
	r.Generator.judge(r.PublishCall)
	r.settle()
	return r
}

// floorSample is what its floor may have found.
func floorSample() *Result {
	r := sample()
	*r = Result{
		URLs: []string{"http://127.0.0.1:1"}, Transport: "sse", Subscribers: 6000, Channels: 2, ChannelsPerConnection: 1, Rate: 100, Size: 500,
		DurationS: 10, Publishers: 2, Connections: 6000, Published: 1000, Expected: 3000000, Delivered: 3000000,
		Seconds: 10, DeliveredPerS: 300000, Latency: r.Latency, PublishCall: r.PublishCall,
		Processes: []ProcessUse{{"floor", 4244, "", 6.3, 2.1, 6144, 16384, 16384, 16384, 1.7, false}},
	}
	r.Generator.judge(r.PublishCall)
	r.settle()
	return r
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", path, got)
	}
}

func TestJSON(t *testing.T) {
	b, err := json.MarshalIndent(Compare(floorSample(), sample()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison.json", string(b)+"\n")
}

func TestTables(t *testing.T) {
	var one, two strings.Builder
	if err := sample().WriteTable(&one); err != nil {
		t.Fatal(err)
	}
	if err := Compare(floorSample(), sample()).WriteTable(&two); err != nil {
		t.Fatal(err)
	}
	golden(t, "result.txt", one.String())
	golden(t, "comparison.txt", two.String())
}

func TestErr(t *testing.T) {
	got := sample().Err()
	const want = "bench: 4 lost, 3 repeated, 2 out of order, 8 against the contract (the server ended the response) (publish: 503)"
	if got == nil || got.Error() != want {
		t.Errorf("%v, want %q", got, want)
	}
	if err := floorSample().Err(); err != nil {
		t.Error(err)
	}
	if err := (&Result{PublishFailed: "publish: 404"}).Err(); err == nil || !strings.Contains(err.Error(), "no publish was acknowledged (publish: 404)") {
		t.Errorf("a run without a message: %v", err)
	}
}

func TestGroup(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 1234567: "1,234,567"} {
		if got := group(n); got != want {
			t.Errorf("group(%d) = %s, want %s", n, got, want)
		}
	}
}
