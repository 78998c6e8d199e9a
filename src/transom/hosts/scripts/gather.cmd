@echo off
setlocal EnableExtensions DisableDelayedExpansion
echo @OutputMarker.BEGUN@
rem Reads the state of the host into one file, "gathered", in a directory of its own.
set "BASE=@BASE@"
set "SC=%SystemRoot%\System32\sc.exe"
set "REG=%SystemRoot%\System32\reg.exe"
set "PING=%SystemRoot%\System32\ping.exe"
set "ICACLS=%SystemRoot%\System32\icacls.exe"
set "POWERSHELL=%SystemRoot%\System32\WindowsPowerShell\v1.0\powershell.exe"
set "TRIES=0"
@SECURE@
rem A script that calls this one has a directory already, and its result is included.
set "NAME=%TRANSOM_PASS%"
if defined NAME goto claimed
:claim
set /a TRIES+=1
if %TRIES% GTR 20 exit /b 1
set "NAME=g-@TAG@-%RANDOM%%RANDOM%"
call :zero
mkdir "%BASE%\%NAME%" 2>nul
if errorlevel 1 goto claim
:claimed
cd /d "%BASE%\%NAME%"
set "PARTS=index.txt"
if exist result.txt call :part result.txt
call :export ledger "@LEDGER@"
@QUESTIONS@
ver >version.txt
call :part version.txt
>computer.txt echo "%COMPUTERNAME%"
>>computer.txt echo "%SSH_CONNECTION%"
call :part computer.txt
>>index.txt echo @IndexEntry.END@
set "TRIES=0"
:join
copy /y /b %PARTS% gathered >nul 2>nul
if not errorlevel 1 goto joined
rem A virus scanner may be reading the new files.
set /a TRIES+=1
if %TRIES% GTR 10 exit /b 1
"%PING%" -n 2 127.0.0.1 >nul
goto join
:joined
del /q "%BASE%\%NAME%\*.reg" "%BASE%\%NAME%\*.txt" "%BASE%\%NAME%\*.err" "%BASE%\%NAME%\*.all"
for /d %%d in (%BASE%\g-* %BASE%\p-* %BASE%\t-* %BASE%\v-*) do echo @OutputMarker.LEFT@ %%~nxd
for %%f in (gathered) do echo @OutputMarker.GATHERED@ %NAME% %%~zf
exit /b 0

:refused
echo @OutputMarker.NO_ACCESS@
exit /b 1
:elsewhere
echo @OutputMarker.NO_ROOT@
exit /b 1

:zero
exit /b 0

:export
echo reading 1>&2
"%REG%" export "%~2" %1.reg /y /reg:64 >nul 2>%1.err
if errorlevel 1 goto missing
if not exist %1.reg goto missing
call :part %1.reg
exit /b 0

:query
echo reading 1>&2
"%REG%" query "%~2" /reg:64 >%1.txt 2>%1.err
if errorlevel 1 goto missing
call :part %1.txt
exit /b 0

rem %1 name, %2 key, %3 positions of the store, "Certificates" and the name among the parts of a path. Of long lines, which contain
rem the certificates, only the first two words are read. If reg reports errors, each store is queried.
:walk
echo reading 1>&2
set "WALKED="
"%REG%" query "%~2" /s /v Blob /reg:64 >%1.all 2>%1.err
for %%f in (%1.err) do if %%~zf GTR 0 exit /b 0
type nul >%1.txt
for /f "usebackq tokens=1,%~3 delims=\ " %%a in (%1.all) do if "%%a"=="HKEY_LOCAL_MACHINE" if "%%c"=="Certificates" >>%1.txt echo %%b\%%d
set "WALKED=1"
call :part %1.txt
exit /b 0

:value
echo reading 1>&2
"%REG%" query "%~2" /v "%~3" /reg:64 >%1.txt 2>%1.err
if errorlevel 1 goto missing
call :part %1.txt
exit /b 0

:bootid
echo reading 1>&2
type nul >boot.err
call :boot boot.txt
if errorlevel 1 goto missing
call :part boot.txt
exit /b 0

@BOOTING@

@READING@

:everywhere
echo reading 1>&2
"%REG%" query "%~2" /s /v "%~3" /reg:64 >%1.txt 2>%1.err
call :part %1.txt
exit /b 0

:missing
>>index.txt echo @IndexEntry.MISSING@ %1
call :part %1.err
exit /b 0

:service
echo reading 1>&2
"%SC%" query "%~2" >%1.txt 2>nul
if errorlevel 1 goto absent
call :part %1.txt
call :export %1 "@SERVICES@\%~2"
exit /b 0

:absent
>>index.txt echo @IndexEntry.ABSENT@ %1
call :part %1.txt
exit /b 0

:part
for %%f in (%1) do >>index.txt echo @IndexEntry.PART@ %1 %%~zf
set "PARTS=%PARTS%+%1"
exit /b 0
