package longpoll

import (
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"rejoin/delivery"
)

// WriteError answers a poll with a problem, a JSON object, in the form that the
// request asks for. The caller has set what other headers it wants.
//
// With status=body it is a 200, and the body {"error":{problem},"status":n}; with
// callback= the same object is what the function is called with.
func WriteError(w http.ResponseWriter, r *http.Request, status int, problem []byte) {
	f, _ := readForm(delivery.ParseParams(r.URL.RawQuery)) // what cannot be read is the problem, or not there
	body, contentType := problem, "application/problem+json"
	if f != (form{}) {
		body = append(append([]byte(`{"error":`), problem...), `,"status":`...)
		body = append(strconv.AppendInt(body, int64(status), 10), '}')
		contentType = "application/json"
	}
	if f.callback != "" {
		body = call(f.callback, one(body))
	}
	if f.inBody {
		status = http.StatusOK
	}
	setHead(w.Header(), f, contentType, len(body))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// setHead sets what the forms differ in and what no cache may overlook.
func setHead(head http.Header, f form, contentType string, length int) {
	if f.callback != "" {
		contentType = "application/javascript" // ASCII, so without a charset
		head.Set("X-Content-Type-Options", "nosniff")
	}
	head.Set("Content-Type", contentType)
	head.Set("Content-Length", strconv.Itoa(length))
	head.Set("Cache-Control", "no-store")
}

// call is the script that calls the function with the JSON, once.
func call(callback string, json iter.Seq[[]byte]) []byte {
	script := appendCall(nil, callback)
	for part := range json {
		script = appendASCII(script, part)
	}
	return append(script, ");"...)
}

func one(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { yield(b) }
}

// pieceBytes is what must go out within Stuck to count as progress.
const pieceBytes = 16 << 10

// write answers with JSON; an error means that the client does not take it.
func (h *Handler) write(w http.ResponseWriter, f form, json iter.Seq[[]byte]) error {
	if f.callback != "" {
		json = one(call(f.callback, json))
	}
	length := 0
	for part := range json {
		length += len(part)
	}
	setHead(w.Header(), f, "application/json", length)
	w.WriteHeader(http.StatusOK)

	control := http.NewResponseController(w)
	if err := setDeadline(control, time.Now().Add(h.o.Stuck)); err != nil {
		return err
	}
	room := pieceBytes
	for part := range json {
		for len(part) > 0 {
			n := min(len(part), room)
			if _, err := w.Write(part[:n]); err != nil {
				return err
			}
			part, room = part[n:], room-n
			if room == 0 {
				if err := flush(control); err != nil {
					return err
				}
				if err := setDeadline(control, time.Now().Add(h.o.Stuck)); err != nil {
					return err
				}
				room = pieceBytes
			}
		}
	}
	if err := flush(control); err != nil {
		return err
	}
	// The connection may be used again, by polls that are held for long.
	return setDeadline(control, time.Time{})
}

func flush(control *http.ResponseController) error {
	return supported(control.Flush())
}

func setDeadline(control *http.ResponseController, t time.Time) error {
	return supported(control.SetWriteDeadline(t))
}

// supported is err, unless the writer merely lacks what was asked of it.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
