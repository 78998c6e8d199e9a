// boot.exe: what makes a Wine prefix a machine that is switched on. Started once for each boot; it
//  - counts the boot: BootId goes up by one, as Windows' prefetcher does;
//  - waits until the service control manager answers, and says "ready" on its standard output;
//  - stays: Wine ends all services when no other process is left (seen: 2 s after the last command).
#include <windows.h>

#define PREFETCHER L"SYSTEM\\CurrentControlSet\\Control\\Session Manager\\Memory Management\\PrefetchParameters"

static void count_boot(void)
{
    DWORD boots = 0, size = sizeof boots;
    RegGetValueW(HKEY_LOCAL_MACHINE, PREFETCHER, L"BootId", RRF_RT_REG_DWORD, 0, &boots, &size);
    boots++;
    RegSetKeyValueW(HKEY_LOCAL_MACHINE, PREFETCHER, L"BootId", REG_DWORD, &boots, sizeof boots);
}

int wmain(void)
{
    SC_HANDLE manager;
    DWORD written;
    count_boot();
    for (int attempt = 0; attempt < 600; attempt++) {
        manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT);
        if (manager) break;
        Sleep(50);
    }
    if (!manager) return 1;
    CloseServiceHandle(manager);
    WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), "ready\n", 6, &written, NULL);
    CloseHandle(GetStdHandle(STD_OUTPUT_HANDLE));
    Sleep(INFINITE);
    return 0;
}
