@echo off
setlocal EnableExtensions DisableDelayedExpansion
rem One question of `transom verify host`; what it prints is judged by who asked.
set "HERE=@BASE@\@PASS@"
set "SC=%SystemRoot%\System32\sc.exe"
set "REG=%SystemRoot%\System32\reg.exe"
set "POWERSHELL=%SystemRoot%\System32\WindowsPowerShell\v1.0\powershell.exe"
cd /d "%HERE%"
@LINES@
exit /b 0
