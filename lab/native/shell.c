// shell.exe: starts cmd.exe with exactly the command line that is in the variable SSH_ORIGINAL_COMMAND, and ends with its
// exit code. Wine makes a command line of its own from Linux arguments, and puts a backslash before each quotation mark.
#include <windows.h>
#include <wchar.h>

static WCHAR line[32768], command[32768];

int wmain(void)
{
    STARTUPINFOW startup = {sizeof startup};
    PROCESS_INFORMATION process;
    DWORD code = 255;
    if (!GetEnvironmentVariableW(L"SSH_ORIGINAL_COMMAND", command, 32000)) return 255;
    SetEnvironmentVariableW(L"SSH_ORIGINAL_COMMAND", NULL);
    wcscpy(line, L"cmd.exe /c \"");
    wcscat(line, command);
    wcscat(line, L"\"");
    if (!CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &process)) return 255;
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &code);
    return (int)code;
}
