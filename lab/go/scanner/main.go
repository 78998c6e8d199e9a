// scanner SECONDS DIRECTORY... opens each file below these that was written, and reads it for so long, as a virus scanner does.
//
// It lets others read and write, but neither remove nor rename (libuv/libuv#1981, golang/go#16882): it opens without
// FILE_SHARE_DELETE. A file that gets another name or time, and no other content, it does not read again. What lies below C:\lab is the lab's own. It prints "ready" and does not end by itself.
//
// "gathered" is left out: Wine's cmd opens what it joins by "copy a+b" anew for each part, for itself alone; Windows' opens it once.
// Wine watches what lies in a directory, and what is made below it from then on; what was there before has to be named.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf16"
	"unsafe"
)

const (
	listDirectory = 1
	added         = 1
	modified      = 3
	changes       = syscall.FILE_NOTIFY_CHANGE_FILE_NAME | syscall.FILE_NOTIFY_CHANGE_DIR_NAME |
		syscall.FILE_NOTIFY_CHANGE_SIZE | syscall.FILE_NOTIFY_CHANGE_LAST_WRITE
)

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		fail(err)
	}
	reading := readers{seconds: time.Duration(seconds * float64(time.Second)), open: map[uint64]bool{}, known: map[uint64]bool{}}
	for _, directory := range os.Args[2:] {
		shared := uint32(syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE | syscall.FILE_SHARE_DELETE)
		watched := open(directory, listDirectory, shared, syscall.FILE_FLAG_BACKUP_SEMANTICS)
		if watched == syscall.InvalidHandle {
			fail(fmt.Errorf("%s cannot be watched", directory))
		}
		go reading.watch(watched, directory)
	}
	fmt.Println("ready")
	select {}
}

func (r *readers) watch(directory syscall.Handle, path string) {
	buffer := make([]byte, 65536)
	for {
		var size uint32
		if err := syscall.ReadDirectoryChanges(directory, &buffer[0], uint32(len(buffer)), true, changes, &size, nil, 0); err != nil {
			fail(err)
		}
		for name, action := range names(buffer[:size]) {
			r.look(filepath.Join(path, name), action == modified)
		}
	}
}

// names are those that a buffer of FILE_NOTIFY_INFORMATION says were added or written, with the last that was said of each.
func names(buffer []byte) map[string]uint32 {
	found := map[string]uint32{}
	for len(buffer) >= 12 {
		entry := (*syscall.FileNotifyInformation)(unsafe.Pointer(&buffer[0]))
		if entry.Action == added || entry.Action == modified {
			found[string(utf16.Decode(unsafe.Slice(&entry.FileName, entry.FileNameLength/2)))] = entry.Action
		}
		if entry.NextEntryOffset == 0 {
			break
		}
		buffer = buffer[entry.NextEntryOffset:]
	}
	return found
}

type readers struct {
	seconds time.Duration
	lock    sync.Mutex
	open    map[uint64]bool
	known   map[uint64]bool
}

// look reads a file, or those in a directory that may have been written before the directory was watched.
func (r *readers) look(path string, written bool) {
	filepath.WalkDir(path, func(path string, entry os.DirEntry, err error) error {
		low := strings.ToLower(path)
		if err == nil && !entry.IsDir() && !strings.HasPrefix(low, `c:\lab\`) && !strings.HasSuffix(low, `\gathered`) {
			r.read(path, written)
		}
		return nil
	})
}

func (r *readers) read(path string, written bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	file := open(path, syscall.GENERIC_READ, syscall.FILE_SHARE_READ|syscall.FILE_SHARE_WRITE, 0)
	if file == syscall.InvalidHandle {
		// gone, or its writer lets nobody read yet
		return
	}
	var information syscall.ByHandleFileInformation
	err := syscall.GetFileInformationByHandle(file, &information)
	index := uint64(information.FileIndexHigh)<<32 | uint64(information.FileIndexLow)
	if err != nil || r.open[index] || r.known[index] && !written {
		syscall.CloseHandle(file)
		return
	}
	r.open[index], r.known[index] = true, true
	time.AfterFunc(r.seconds, func() {
		r.lock.Lock()
		defer r.lock.Unlock()
		syscall.CloseHandle(file)
		delete(r.open, index)
	})
}

func open(path string, rights, share, flags uint32) syscall.Handle {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return syscall.InvalidHandle
	}
	file, err := syscall.CreateFile(name, rights, share, nil, syscall.OPEN_EXISTING, flags, 0)
	if err != nil {
		return syscall.InvalidHandle
	}
	return file
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
