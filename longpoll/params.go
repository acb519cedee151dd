package longpoll

import (
	"fmt"
	"strconv"
	"time"

	"rejoin/delivery"
)

// Bounds and defaults of the contract.
const (
	DefaultTimeout = 25 * time.Second
	MinTimeout     = time.Second
	MaxTimeout     = 60 * time.Second
	MaxWait        = time.Second
	DefaultLimit   = 100
	MaxLimit       = 1000
)

// params are what this transport adds to a request.
type params struct {
	timeout time.Duration // how long a poll is held when there is nothing
	wait    time.Duration // how long it gathers once there is something
	limit   int           // most messages in an answer
	form    form
}

// readParams reads them; its error is a [*delivery.RequestError].
func readParams(p delivery.Params) (params, error) {
	r := params{timeout: DefaultTimeout, limit: DefaultLimit}
	err := p.Check("timeout", "wait", "limit", "status", "callback")
	if err != nil {
		return params{}, err
	}
	if r.form, err = readForm(p); err != nil {
		return params{}, err
	}
	if text, ok := p.Get("timeout"); ok {
		if r.timeout, err = time.ParseDuration(text); err != nil || r.timeout < MinTimeout || r.timeout > MaxTimeout {
			return params{}, &delivery.RequestError{Name: "timeout", Reason: "want 1s to 60s, as in 25s"}
		}
	}
	if text, ok := p.Get("wait"); ok {
		if r.wait, err = time.ParseDuration(text); err != nil || r.wait < 0 || r.wait > MaxWait {
			return params{}, &delivery.RequestError{Name: "wait", Reason: "want 0s to 1s, as in 50ms"}
		}
	}
	if text, ok := p.Get("limit"); ok {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n < 1 || n > MaxLimit {
			return params{}, &delivery.RequestError{Name: "limit", Reason: fmt.Sprintf("want a number from 1 to %d", MaxLimit)}
		}
		r.limit = int(n)
	}
	return r, nil
}

// form is how a client can take an answer. The zero value is plain HTTP.
type form struct {
	callback string // JSONP: the function that is called with it; "" for none
	inBody   bool   // the status stands in the body alone
}

// readForm reads the form. With an error it is what of it could be read, which
// is how the error is to be answered.
func readForm(p delivery.Params) (f form, err error) {
	if text, ok := p.Get("status"); ok {
		if f.inBody = text == "body"; !f.inBody {
			err = &delivery.RequestError{Name: "status", Reason: "want body, or leave it out"}
		}
	}
	if name, ok := p.Get("callback"); ok {
		if !isCallback(name) {
			return f, &delivery.RequestError{Name: "callback", Reason: "want a function's name, up to 64 of the characters A-Z a-z 0-9 _ $ . and no digit or dot first"}
		}
		f.callback = name
	}
	return f, err
}

// IsJSONP reports whether the answer is for a script element. Such a request
// carries the cookies of this site on any page of any other, so they must not
// count.
func IsJSONP(p delivery.Params) bool {
	_, ok := p.Get("callback")
	return ok
}
