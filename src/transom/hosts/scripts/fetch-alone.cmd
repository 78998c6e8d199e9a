@echo off
setlocal EnableExtensions DisableDelayedExpansion
rem Fetches without a change; the result goes to standard output.
set "HERE=@BASE@\@PASS@"
set "CURL=%SystemRoot%\System32\curl.exe"
set "RESULT=%HERE%\result.txt"
@FETCHING@
type "%RESULT%"
exit /b 0
