package logtest

var appendChecks, readChecks, faultChecks, sessionChecks []Check
