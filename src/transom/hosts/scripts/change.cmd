@echo off
setlocal EnableExtensions DisableDelayedExpansion
rem Locks the host, imports the change, starts the job that restarts services, and reads the host again.
set "BASE=@BASE@"
set "PASS=p-@TAG@-@ID@"
set "TAKE=t-@TAG@-@ID@"
set "VOID=v-@TAG@-@ID@"
set "HERE=%BASE%\%PASS%"
set "LOCK=%BASE%\lock"
set "GENERATION=@GENERATION@"
set "SC=%SystemRoot%\System32\sc.exe"
set "SCHTASKS=%SystemRoot%\System32\schtasks.exe"
set "REG=%SystemRoot%\System32\reg.exe"
set "CMD=%SystemRoot%\System32\cmd.exe"
set "POWERSHELL=%SystemRoot%\System32\WindowsPowerShell\v1.0\powershell.exe"
set "ICACLS=%SystemRoot%\System32\icacls.exe"
set "PING=%SystemRoot%\System32\ping.exe"
set "CURL=%SystemRoot%\System32\curl.exe"
set "RESULT=%HERE%\result.txt"
if "%~1"=="job" goto job

set "BOOT=none"
call :boot "%HERE%\boot.txt"
for /f "usebackq tokens=1-3" %%a in ("%HERE%\boot.txt") do if "%%b"=="REG_DWORD" set "BOOT=%%c"
set "ROUNDS=0"
set "WAITED=0"
set "SCANNED=0"
set "OVER="
rem These scripts have no other way to wait.
"%PING%" -n 1 127.0.0.1 >nul 2>nul
if errorlevel 1 goto unpaused

rem The lock is complete before it is renamed to its final name: no lock exists without owner and boot.
:take
set /a ROUNDS+=1
if %ROUNDS% GTR 10 goto held
if %ROUNDS% GTR 3 "%PING%" -n 2 127.0.0.1 >nul
rem Created once: a virus scanner reads new files, and meanwhile the directory cannot be renamed.
if exist "%BASE%\%TAKE%\%PASS%" goto named
mkdir "%BASE%\%TAKE%" 2>nul
>"%BASE%\%TAKE%\owner.txt" echo @OWNER@
>"%BASE%\%TAKE%\generation.txt" echo %GENERATION%
>"%BASE%\%TAKE%\boot-%BOOT%" echo %BOOT%
>"%BASE%\%TAKE%\%PASS%" echo %PASS%
:named
ren "%BASE%\%TAKE%" lock 2>nul
if exist "%LOCK%\%PASS%" goto taken
if not exist "%LOCK%" goto scanned
if not exist "%LOCK%\boot-%BOOT%" goto void
set "HELD="
set "THEIRS=-"
for /f "usebackq tokens=1" %%a in ("%LOCK%\owner.txt") do set "HELD=%%a"
for /f "usebackq tokens=1" %%a in ("%LOCK%\generation.txt") do set "THEIRS=%%a"
if "%HELD%"=="@IDENTITY@" goto ours
if "%GENERATION%"=="-" goto held
if "%THEIRS%"=="-" goto held
if %THEIRS% LSS %GENERATION% goto ours
goto held

rem No other pass has locked the host, and the directory cannot be renamed: a program has its files open.
:scanned
set /a SCANNED+=1
if %SCANNED% GTR @SCAN@ goto unscanned
set "ROUNDS=0"
echo waiting 1>&2
if %SCANNED% GTR 3 "%PING%" -n 2 127.0.0.1 >nul
goto take
:unscanned
>"%RESULT%" echo @ResultWord.FILES_IN_USE@
rmdir /s /q "%BASE%\%TAKE%" 2>nul
exit /b 1
:unpaused
>"%RESULT%" echo @ResultWord.PING_BLOCKED@
exit /b 1

rem The lock is older than this boot: its pass no longer runs.
:void
ren "%LOCK%" %VOID% 2>nul
if not exist "%BASE%\%VOID%\boot-%BOOT%" goto voided
ren "%BASE%\%VOID%" lock 2>nul
goto held
:voided
rmdir /s /q "%BASE%\%VOID%" 2>nul
goto take

rem The lock of an earlier pass that has ended. Its script or its restarts may still run: they keep a file open.
:ours
del "%LOCK%\alive" 2>nul
del "%LOCK%\job" 2>nul
if exist "%LOCK%\alive" goto wait
if exist "%LOCK%\job" goto wait
ren "%LOCK%" %VOID% 2>nul
rmdir /s /q "%BASE%\%VOID%" 2>nul
goto take
:wait
set "ROUNDS=0"
set /a WAITED+=1
if %WAITED% GTR @WAIT@ goto held
echo waiting 1>&2
"%PING%" -n 2 127.0.0.1 >nul
goto take

:held
>"%RESULT%" echo @ResultWord.HELD@
if exist "%LOCK%\owner.txt" for /f "usebackq delims=" %%a in ("%LOCK%\owner.txt") do >>"%RESULT%" echo @ResultWord.HOLDER@ %%a
>>"%RESULT%" echo @ResultWord.BOOT@ %BOOT%
rmdir /s /q "%BASE%\%TAKE%" 2>nul
exit /b 1

:taken
>"%RESULT%" echo @ResultWord.TAKEN@
call :work >"%LOCK%\alive"
del "%LOCK%\alive" 2>nul
if exist "%HERE%\job-started" goto follow
:release
if not exist "%LOCK%\%PASS%" goto gather
ren "%LOCK%" %VOID% 2>nul
rmdir /s /q "%BASE%\%VOID%" 2>nul
set /a WAITED+=1
if not exist "%LOCK%\%PASS%" goto gather
if %WAITED% GTR @WAIT@ goto gather
"%PING%" -n 2 127.0.0.1 >nul
goto release

rem The job continues without this script; when it ends, it removes the lock.
:follow
if not exist "%LOCK%\%PASS%" goto gather
set /a WAITED+=1
if %WAITED% GTR @WAIT@ goto unfinished
echo restarting 1>&2
if %WAITED% GTR 3 "%PING%" -n 2 127.0.0.1 >nul
goto follow
:unfinished
del /q "%HERE%\fetch-*.txt" 2>nul
>>"%RESULT%" echo @ResultWord.UNFINISHED@
exit /b 1
:gather
if defined OVER exit /b 1
if exist "%HERE%\restarts.txt" type "%HERE%\restarts.txt" >>"%RESULT%"
del "%HERE%\job-started" 2>nul
@FETCHING@
set "TRANSOM_PASS=%PASS%"
call "%BASE%\@GATHER@"
exit /b 0

:work
set "OVER=1"
if not exist "%LOCK%\%PASS%" exit /b 0
set "NOW=none"
"%REG%" query "@LEDGER@" /v StateHash /reg:64 >"%HERE%\hash.txt" 2>nul
for /f "usebackq tokens=1-3" %%a in ("%HERE%\hash.txt") do if "%%b"=="REG_SZ" set "NOW=said-%%c"
if not "%NOW%"=="@STATEHASH@" goto overtaken
set "OVER="
set "SEEN=0"
if exist "%BASE%\generation-@TAG@" for /f "usebackq tokens=1" %%a in ("%BASE%\generation-@TAG@") do set "SEEN=%%a"
if "%GENERATION%"=="-" goto import
if %SEEN% GTR %GENERATION% goto superseded
if %SEEN%==%GENERATION% goto import
>"%HERE%\generation" echo %GENERATION%
set "TRIES=0"
:fence
move /y "%HERE%\generation" "%BASE%\generation-@TAG@" >nul 2>nul
if not exist "%HERE%\generation" goto import
rem A virus scanner may be reading it.
set /a TRIES+=1
echo waiting 1>&2
if %TRIES% GTR @SCAN@ goto import
"%PING%" -n 2 127.0.0.1 >nul
goto fence
:import
>>"%RESULT%" echo @ResultWord.BEGUN@
@REMOVE@
@CLOSE@
@VERIFY@
@PREPARE@
@IMPORT@
@WRITE@
@JOB@
exit /b 0

@REMOVING@

@CLOSING@

@VERIFYING@

@PREPARING@

@WRITING@

rem The host was read before an earlier pass ended: its changes must not be repeated.
:overtaken
>>"%RESULT%" echo @ResultWord.OVERTAKEN@
exit /b 0

:superseded
>>"%RESULT%" echo @ResultWord.SUPERSEDED@ %SEEN%
set "OVER=1"
exit /b 0

:notimported
del "%HERE%\change.reg" 2>nul
>>"%RESULT%" echo @ResultWord.NOT_IMPORTED@
exit /b 0

:nojob
@WITHDRAW@
"%SCHTASKS%" /delete /tn TransomRestart /f >nul 2>nul
>>"%RESULT%" echo @ResultWord.NO_JOB@
exit /b 0

@BOOTING@

@RESTARTING@
