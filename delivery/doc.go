// Package delivery is the local broker: it reads each channel's log once,
// whatever the number of readers, and lets every reader pull from the recent
// tail it keeps, or from the log when the reader is further behind. It knows no
// HTTP.
//
// A reader is a [Subscription]: a cursor for each of its channels and nothing
// queued. Live delivery, catching up and waiting out an outage are one act,
// "everything between the cursor and the head", at different distances.
package delivery
