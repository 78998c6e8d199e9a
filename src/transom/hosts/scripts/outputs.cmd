@echo off
setlocal EnableExtensions DisableDelayedExpansion
rem Runs scripts of the payload. Output is in a file per script, which is empty if the script failed. Errors are in another file.
set "HERE=@DIRECTORY@"
set "POWERSHELL=%SystemRoot%\System32\WindowsPowerShell\v1.0\powershell.exe"
@CALLS@
exit /b 0

:powershell
echo running 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -ExecutionPolicy Bypass -File "%HERE%\%1.ps1" >"%HERE%\%1.txt" 2>"%HERE%\%1.err"
if errorlevel 1 type nul >"%HERE%\%1.txt"
exit /b 0

:batch
echo running 1>&2
call "%HERE%\%1.cmd" >"%HERE%\%1.txt" 2>"%HERE%\%1.err"
if errorlevel 1 type nul >"%HERE%\%1.txt"
exit /b 0
