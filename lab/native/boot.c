// boot.exe: what makes a Wine prefix a machine that is switched on. Started once for each boot; it
//  - counts the boot: BootId goes up by one, as Windows' prefetcher does;
//  - waits until the service control manager answers, and says "ready" on its standard output;
//  - stays: Wine ends all services when no other process is left (seen: 2 s after the last command);
//  - says of a service whose process is gone that it has stopped. Windows sees that by itself. Wine leaves it STOP_PENDING for ever
//    where the process ended before it said so (seen: kubelet.exe, whose main thread may be the quicker one), and RUNNING where it
//    ended unasked (seen: a Go program, once in some hundred starts).
#include <windows.h>

// The access that a service itself has to say how it is; no header names it.
#define SERVICE_SET_STATUS 0x8000

#define PREFETCHER L"SYSTEM\\CurrentControlSet\\Control\\Session Manager\\Memory Management\\PrefetchParameters"

static void count_boot(void)
{
    DWORD boots = 0, size = sizeof boots;
    RegGetValueW(HKEY_LOCAL_MACHINE, PREFETCHER, L"BootId", RRF_RT_REG_DWORD, 0, &boots, &size);
    boots++;
    RegSetKeyValueW(HKEY_LOCAL_MACHINE, PREFETCHER, L"BootId", REG_DWORD, &boots, sizeof boots);
}

// The processes that services run in. They are waited for, so that the end of one is seen at once; while one is open, nobody else
// gets its number.
static HANDLE processes[MAXIMUM_WAIT_OBJECTS];
static DWORD numbers[MAXIMUM_WAIT_OBJECTS], followed;
static BOOL used[MAXIMUM_WAIT_OBJECTS];

static BOOL over(DWORD number)
{
    DWORD at = 0;
    while (at < followed && numbers[at] != number) at++;
    HANDLE process = at < followed ? processes[at] : number ? OpenProcess(SYNCHRONIZE, FALSE, number) : NULL;
    BOOL ended = !process || WaitForSingleObject(process, 0) == WAIT_OBJECT_0;
    if (at == followed && process && (ended || followed == MAXIMUM_WAIT_OBJECTS)) {
        CloseHandle(process);
    } else if (!ended) {
        if (at == followed) followed++;
        numbers[at] = number;
        processes[at] = process;
        used[at] = TRUE;
    }
    return ended;
}

static void forget_unused(void)
{
    for (DWORD at = followed; at-- > 0;) {
        if (!used[at]) {
            CloseHandle(processes[at]);
            followed--;
            numbers[at] = numbers[followed];
            processes[at] = processes[followed];
        }
        used[at] = FALSE;
    }
}

static void stop_ended(SC_HANDLE manager)
{
    static union { ENUM_SERVICE_STATUS_PROCESSW list[1]; BYTE bytes[65536]; } found;
    // all of the buffer is sent, whatever is in it: 64 KB are 170 requests to Wine's server, what a machine has fits into a few KB
    static DWORD size = 4096;
    DWORD needed, count = 0;
    while (!EnumServicesStatusExW(manager, SC_ENUM_PROCESS_INFO, SERVICE_WIN32, SERVICE_ACTIVE, found.bytes, size, &needed,
                                  &count, NULL, NULL)) {
        if (GetLastError() != ERROR_MORE_DATA || size == sizeof found) {
            // nobody is forgotten, and the wait for who has ended would be none
            Sleep(500);
            return;
        }
        size *= 2;
    }
    for (DWORD i = 0; i < count; i++) {
        SERVICE_STATUS_PROCESS *now = &found.list[i].ServiceStatusProcess;
        SERVICE_STATUS stopped = {now->dwServiceType, SERVICE_STOPPED};
        BOOL runs = now->dwCurrentState == SERVICE_RUNNING && now->dwProcessId;
        if (!over(now->dwProcessId) || !(runs || now->dwCurrentState == SERVICE_STOP_PENDING)) continue;
        if (runs) stopped.dwWin32ExitCode = ERROR_PROCESS_ABORTED;
        SC_HANDLE service = OpenServiceW(manager, found.list[i].lpServiceName, SERVICE_SET_STATUS);
        if (!service) continue;
        SetServiceStatus((SERVICE_STATUS_HANDLE)service, &stopped);
        CloseServiceHandle(service);
    }
    forget_unused();
}

int wmain(void)
{
    SC_HANDLE manager;
    DWORD written;
    count_boot();
    for (int attempt = 0; attempt < 600; attempt++) {
        manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT | SC_MANAGER_ENUMERATE_SERVICE);
        if (manager) break;
        Sleep(50);
    }
    if (!manager) return 1;
    WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), "ready\n", 6, &written, NULL);
    CloseHandle(GetStdHandle(STD_OUTPUT_HANDLE));
    for (;;) {
        stop_ended(manager);
        if (!followed || WaitForMultipleObjects(followed, processes, FALSE, 500) == WAIT_FAILED) Sleep(500);
    }
}
