package lockctx_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startShifted starts the program as a process whose wall clock is ahead by so much, or behind. Its
// monotonic clocks are as they are.
//
// Programs in Go ask the kernel's vDSO for the time and no library that another could be put before.
// So the child is stopped before its first instruction, and its copy of that function is replaced.
func startShifted(t testing.TB, cmd *exec.Cmd, ahead time.Duration) {
	t.Helper()
	runtime.LockOSThread() // who starts a traced process is the only one it obeys
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, 0, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped(), "the child did not stop at its start")
	require.NoError(t, shiftClock(pid, ahead))
	require.NoError(t, syscall.PtraceDetach(pid))
}

// shiftClock replaces __vdso_clock_gettime of a stopped process by one that asks the kernel, and adds
// to the seconds if the question was for the wall clock.
func shiftClock(pid int, ahead time.Duration) error {
	start, end, err := vdsoOf(pid)
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	image := make([]byte, end-start)
	if _, err := memory.ReadAt(image, start); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, symbol := range symbols {
		if symbol.Name == "__vdso_clock_gettime" {
			_, err := memory.WriteAt(clockGettime(int32(ahead/time.Second)), start+int64(symbol.Value))
			return err
		}
	}
	return errors.New("the vDSO has no clock_gettime")
}

func clockGettime(seconds int32) []byte {
	code := []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x07, // jne ret
		0x48, 0x81, 0x06, // add qword [rsi], seconds
	}
	code = binary.LittleEndian.AppendUint32(code, uint32(seconds))
	return append(code, 0xc3) // ret
}

func vdsoOf(pid int) (start, end int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &start, &end)
			return start, end, err
		}
	}
	return 0, 0, errors.New("the process has no vDSO")
}
