//go:build unix && !linux

package tool

func processLimit() int64 { return 0 }

func fileLimit(string) int64 { return 0 }
