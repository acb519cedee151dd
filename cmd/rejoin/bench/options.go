package bench

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Options say what to run. [DefaultOptions] is a small run on the local server;
// the zero values of Life, Slow, Processes and Progress mean none.
type Options struct {
	URLs                  []string // http://host:port of each server, with an optional path before /v1; see [target]
	Transport             string   // "sse", "ws" or "longpoll"
	Subscribers           int
	Channels              int     // the subscribers are spread over them
	ChannelsPerConnection int     // each subscriber reads so many, neighbours by number
	Rate                  float64 // messages a second, all channels together
	Size                  int     // payload bytes, at least [MinSize]
	Duration              time.Duration
	Life                  time.Duration // each connection closes after so long and resumes
	Slow                  int           // extra connections that never read
	Publishers            int           // connections that publish; a channel belongs to one
	ConnectRate           float64       // connections opened, and at the end closed, a second
	Prefix                string        // channel names are <prefix>.<number>
	Processes             []Process     // whose CPU and memory is measured; the first, or the one named "server", is the server's
	Progress              Progress      // told twice a second, if not nil
	Settle                time.Duration // pause between the last ready and the first message, for memory to come to rest
	Quiet                 time.Duration // after the last publish, without a delivery for so long, what is missing is not coming; with all there, a twentieth of it for repeats
}

// DefaultOptions are the defaults of the command line.
func DefaultOptions() Options {
	return Options{
		URLs:                  []string{"http://127.0.0.1:8080"},
		Transport:             "sse",
		Subscribers:           1000,
		Channels:              1,
		ChannelsPerConnection: 1,
		Rate:                  100,
		Size:                  500,
		Duration:              10 * time.Second,
		Publishers:            8,
		ConnectRate:           4000,
		Prefix:                "bench",
		Settle:                2 * time.Second,
		Quiet:                 5 * time.Second,
	}
}

// check returns the first thing that is wrong with the options, in words of the
// command line.
func (o *Options) check() error {
	switch o.Transport {
	case "sse", "ws":
	case "longpoll":
		if o.Slow > 0 {
			return errors.New("--slow: a poll that nobody reads holds nothing up: use it with sse or ws")
		}
	default:
		return fmt.Errorf("--transport %q: want sse, ws or longpoll", o.Transport)
	}
	if n := o.ChannelsPerConnection; n < 1 || n > o.Channels || n > maxChannels {
		return fmt.Errorf("--channels-per-connection %d: want 1 to %d, and no more than --channels %d", n, maxChannels, o.Channels)
	}
	if o.Prefix == "" || len(o.Prefix) > 150 || strings.Trim(o.Prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:~@=+-") != "" {
		return fmt.Errorf("--prefix %q: want 1-150 characters of A-Z a-z 0-9 _ . : ~ @ = + -", o.Prefix)
	}
	for _, n := range []struct {
		flag   string
		v, min int
	}{
		{"subscribers", o.Subscribers, 1}, {"channels", o.Channels, 1},
		{"publishers", o.Publishers, 1}, {"slow", o.Slow, 0}, {"size", o.Size, MinSize},
	} {
		if n.v < n.min {
			return fmt.Errorf("--%s %d: want at least %d", n.flag, n.v, n.min)
		}
	}
	if o.Size > MaxSize {
		return fmt.Errorf("--size %d: want at most %d (1 MiB)", o.Size, MaxSize)
	}
	for _, n := range []struct {
		flag string
		v    float64
	}{{"rate", o.Rate}, {"connect-rate", o.ConnectRate}} {
		if !(n.v > 0) || math.IsInf(n.v, 0) {
			return fmt.Errorf("--%s %g: want more than 0 a second", n.flag, n.v)
		}
	}
	if o.Duration <= 0 {
		return fmt.Errorf("--duration %s: want more than 0", o.Duration)
	}
	if o.total() < 1 {
		return fmt.Errorf("--rate %g for %s is less than one message", o.Rate, o.Duration)
	}
	if o.Life != 0 && o.Life < minLife {
		return fmt.Errorf("--life %s: want 0 or at least %s", o.Life, minLife)
	}
	return nil
}

// maxChannels is how many a server takes for a connection by default.
const maxChannels = 100

// minLife keeps a connection open long enough to be told anything.
const minLife = 50 * time.Millisecond

// total is the number of messages the schedule holds.
func (o *Options) total() int { return int(math.Round(o.Rate * o.Duration.Seconds())) }

// publishers is how many have a channel to publish on.
func (o *Options) publishers() int { return min(o.Publishers, o.Channels) }

// openFiles is how many descriptors the run needs at its peak.
func (o *Options) openFiles() int {
	const own = 48 // standard streams, epoll, /proc, the runtime
	return o.Subscribers + o.Slow + o.publishers() + own
}

// target is where a server listens. Of several, all on one log, a subscriber
// uses another at each of its connections, and a publisher stays with one until
// that fails.
type target struct {
	addr netip.AddrPort
	host string // for the Host header
	path string // before /v1, without a trailing slash
}

// resolve finds the addresses behind the URLs.
func (o *Options) resolve() (all []target, err error) {
	for _, u := range o.URLs {
		t, err := resolve(u)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, errors.New("--url is missing: want http://host:port")
	}
	return all, nil
}

// resolve finds the address behind a URL, IPv4 first.
func resolve(text string) (target, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return target{}, fmt.Errorf("--url %q: want http://host:port", text)
	}
	if u.Scheme != "http" {
		return target{}, fmt.Errorf("--url %q: only http:// is measured; put the load on the plain port", text)
	}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = "80"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return target{}, fmt.Errorf("--url %q: %q is not a port", text, port)
	}
	t := target{host: u.Host, path: strings.TrimRight(u.EscapedPath(), "/")}
	ips, err := net.LookupIP(host)
	if err != nil || len(ips) == 0 {
		return target{}, fmt.Errorf("--url %q: no address for %s: %w", text, host, err)
	}
	best := ips[0]
	for _, ip := range ips {
		if ip.To4() != nil {
			best = ip
			break
		}
	}
	a, _ := netip.AddrFromSlice(best)
	t.addr = netip.AddrPortFrom(a.Unmap(), uint16(n))
	return t, nil
}

// firstChannel is the number of a subscriber's first channel.
func (o *Options) firstChannel(index int) int { return index * o.ChannelsPerConnection % o.Channels }

// channelName is the name of the channel with that number.
func (o *Options) channelName(n int) string { return o.Prefix + "." + strconv.Itoa(n) }
