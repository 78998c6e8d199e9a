// tool.exe stands for a program of Windows that Wine has as an empty stub only: netsh, icacls, certutil, dism, powershell.
// It appends its command line to C:\lab\calls.txt, prints C:\lab\NAME.out and ends with the number in C:\lab\NAME.code,
// where these are there. certutil -hashfile FILE SHA256 prints what Windows' own prints.
#include <windows.h>
#include <bcrypt.h>
#include <stdio.h>
#include <wchar.h>

static WCHAR name[MAX_PATH];

static void record(void)
{
    char line[16384];
    DWORD written;
    int length = WideCharToMultiByte(CP_UTF8, 0, GetCommandLineW(), -1, line, sizeof line - 2, NULL, NULL);
    HANDLE file = CreateFileW(L"C:\\lab\\calls.txt", FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_ALWAYS,
                              0, NULL);
    if (file == INVALID_HANDLE_VALUE || length <= 0) return;
    line[length - 1] = '\n';
    WriteFile(file, line, (DWORD)length, &written, NULL);
    CloseHandle(file);
}

static FILE *answer(const WCHAR *ending)
{
    WCHAR path[MAX_PATH];
    swprintf(path, MAX_PATH, L"C:\\lab\\%ls.%ls", name, ending);
    return _wfopen(path, L"rb");
}

static int hash(const WCHAR *path)
{
    static unsigned char block[65536];
    unsigned char digest[32];
    BCRYPT_ALG_HANDLE algorithm;
    BCRYPT_HASH_HANDLE hashing;
    size_t count;
    FILE *file = _wfopen(path, L"rb");
    if (!file) return 2;
    if (BCryptOpenAlgorithmProvider(&algorithm, BCRYPT_SHA256_ALGORITHM, NULL, 0)) return 1;
    if (BCryptCreateHash(algorithm, &hashing, NULL, 0, NULL, 0, 0)) return 1;
    while ((count = fread(block, 1, sizeof block, file)) > 0) BCryptHashData(hashing, block, (ULONG)count, 0);
    fclose(file);
    BCryptFinishHash(hashing, digest, sizeof digest, 0);
    wprintf(L"SHA256 hash of %ls:\n", path);
    for (size_t at = 0; at < sizeof digest; at++) wprintf(L"%02x", digest[at]);
    wprintf(L"\nCertUtil: -hashfile command completed successfully.\n");
    return 0;
}

int wmain(int count, WCHAR **arguments)
{
    WCHAR path[MAX_PATH];
    int code = 0, letter;
    FILE *file;
    GetModuleFileNameW(NULL, path, MAX_PATH);
    _wsplitpath(path, NULL, NULL, name, NULL);
    record();
    if ((file = answer(L"out"))) {
        while ((letter = fgetc(file)) != EOF) putchar(letter);
        fclose(file);
    }
    if ((file = answer(L"code"))) {
        if (fscanf(file, "%d", &code) != 1) code = 255;
        fclose(file);
        return code;
    }
    if (!_wcsicmp(name, L"certutil") && count == 4 && !_wcsicmp(arguments[1], L"-hashfile")) return hash(arguments[2]);
    return 0;
}
