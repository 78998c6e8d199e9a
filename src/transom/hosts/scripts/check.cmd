@echo off
setlocal EnableExtensions DisableDelayedExpansion
rem One check of `transom verify host`; Transom evaluates the output.
set "HERE=@BASE@\@PASS@"
set "OWN=C:\TransomVerify"
set "SC=%SystemRoot%\System32\sc.exe"
set "REG=%SystemRoot%\System32\reg.exe"
set "FIND=%SystemRoot%\System32\find.exe"
set "CMD=%SystemRoot%\System32\cmd.exe"
set "PING=%SystemRoot%\System32\ping.exe"
set "NETSH=%SystemRoot%\System32\netsh.exe"
set "ICACLS=%SystemRoot%\System32\icacls.exe"
set "SCHTASKS=%SystemRoot%\System32\schtasks.exe"
set "POWERSHELL=%SystemRoot%\System32\WindowsPowerShell\v1.0\powershell.exe"
cd /d "%HERE%"
echo checking 1>&2
@LINES@
exit /b 0
