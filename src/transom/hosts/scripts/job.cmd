rem Stops and starts services, also after the connection has ended; its last action is to unlock the host.
:job
set "NOTES=@RESTARTS@"
set "BY=%~2"
set "RESULT=%HERE%\restarts.txt"
set "STUCK="
set "UNWELL="
set "DOWN="
set "LOST="
set "WAITED=0"
if not exist "%LOCK%\%PASS%" exit
rem A task and a service may both have been started: the one that gets the ticket works.
ren "%HERE%\task.xml" job-%~2.txt 2>nul
if not exist "%HERE%\job-%~2.txt" exit
call :restart >"%LOCK%\job"
del "%HERE%\*.reg" "%LOCK%\job" 2>nul
if "%~2"=="task" "%SCHTASKS%" /delete /tn TransomRestart /f >nul 2>nul
:leave
rem One line, because this script may be removed once the lock is gone: cmd reads a script line by line.
(ren "%LOCK%" %VOID% 2>nul & if not exist "%LOCK%\%PASS%" (rmdir /s /q "%BASE%\%VOID%" & exit))
set /a WAITED+=1
if %WAITED% GTR 60 exit
"%PING%" -n 2 127.0.0.1 >nul
goto leave

:restart
if not exist "%LOCK%\%PASS%" exit
>"%HERE%\job-started" echo %PASS%
>"%RESULT%" echo @ResultWord.BEGUN@
@FLAGS@
@ENABLED@
@STOPS@
@INSTALL@
:starts
@STARTS@
@SETTLE@
@FORGET@
>>"%RESULT%" echo @ResultWord.ENDED@
if "%BY%"=="service" call :withdraw
exit /b 0

rem A deleted service is removed when no program has it open; its key must be gone before the host is unlocked.
:withdraw
set "TRIES=0"
:withdrawing
"%SC%" delete TransomRestart >nul 2>nul
"%REG%" query "@SERVICES@\TransomRestart" /reg:64 >nul 2>nul
if errorlevel 1 exit /b 0
set /a TRIES+=1
if %TRIES% GTR 60 goto unserve
call :sleep
goto withdrawing
:unserve
"%REG%" delete "@SERVICES@\TransomRestart" /f /reg:64 >nul 2>nul
exit /b 0

rem STATE: the number on the third line of sc query (its words are translated); empty: the service does not exist.
rem EXIT: the number on the fourth line, the exit code of the service; 1066 refers to the service's own code on the fifth.
rem SIGN, HINT: the checkpoint on the sixth line, which a pending service increases, and the seconds in which it must do so.
:state
set "STATE="
set "EXIT="
set "SIGN="
set "HINT=0"
set "LINE=0"
"%SC%" query "%~1" >"%HERE%\state.txt" 2>nul
if errorlevel 1 exit /b 0
for /f "usebackq tokens=2 delims=:" %%a in ("%HERE%\state.txt") do call :line %%a
exit /b 0
:line
set /a LINE+=1
if %LINE%==3 set "STATE=%1"
if %LINE%==4 set "EXIT=%1"
if %LINE%==5 if "%EXIT%"=="1066" set "EXIT=%1"
if %LINE%==6 set "SIGN=%1"
if %LINE%==7 set /a HINT=%1/1000 2>nul
exit /b 0

:sleep
if %TRIES% GTR 3 "%PING%" -n 2 127.0.0.1 >nul
exit /b 0

:fresh
set "TRIES=0"
set "NEXT=0"
set "IDLE=0"
set "QUIET=0"
set "LASTSIGN="
set "CODE=0"
set "LATE="
set "MOVING="
exit /b 0

rem %1 stop or start, %2 name: now, and then every ten seconds, because the SCM can block the caller.
:ask
if %TRIES% LSS %NEXT% exit /b 0
if %TRIES% GTR 1 set /a NEXT=TRIES+10
"%SC%" %1 "%~2" >nul 2>nul
set "CODE=%ERRORLEVEL%"
exit /b 0

rem %1 seconds for a pending service since its last checkpoint, %2 for another one, %3 in total: LATE when they are over;
rem MOVING: it is still within the time since its last checkpoint.
:await
set /a TRIES+=1
if "%STATE%"=="2" goto underway
if "%STATE%"=="3" goto underway
set /a IDLE+=1
if %IDLE% GTR %2 set "LATE=1"
if %TRIES% GTR %3 set "LATE=1"
exit /b 0
:underway
if not "%SIGN%"=="%LASTSIGN%" set "QUIET=0"
set "LASTSIGN=%SIGN%"
set /a QUIET+=1
set "LIMIT=%1"
if %HINT% GTR %1 set "LIMIT=%HINT%"
if %QUIET% GTR %LIMIT% set "LATE=1"
if defined LATE exit /b 0
if %TRIES% LEQ %3 exit /b 0
set "LATE=1"
set "MOVING=1"
exit /b 0

rem %1 name: whether Windows would start it again (its value Start is not SERVICE_DISABLED), before any service is stopped
:enabled
"%REG%" query "@SERVICES@\%~1" /v Start /reg:64 >"%HERE%\start.txt" 2>nul
if errorlevel 1 exit /b 0
set "TYPE="
for /f "usebackq tokens=1-3" %%a in ("%HERE%\start.txt") do if "%%b"=="REG_DWORD" set "TYPE=%%c"
if not "%TYPE%"=="0x4" exit /b 0
call :state %1
if "%STATE%"=="" exit /b 0
if "%STATE%"=="1" exit /b 0
>>"%RESULT%" echo @ResultWord.DISABLED@ %~1
set "STUCK=1"
exit /b 0

rem %1 number, %2 name, %3 note, %4 seconds while it stops, %5 seconds while it does not, %6 seconds in total
:stop
call :fresh
call :state %2
if "%STATE%"=="" goto gone
if not "%3"=="check" goto owed
if "%STATE%"=="1" goto idle
if "%STATE%"=="3" goto stopping
"%REG%" add "%NOTES%" /v "%~2" /t REG_SZ /d running /f /reg:64 >nul 2>nul
set "SKIP_%1="
:owed
if "%STATE%"=="1" goto stopped
if not "%STATE%"=="3" call :ask stop %2
call :state %2
if "%STATE%"=="1" goto stopped
if "%STATE%"=="" goto gone
rem 1051: a service that depends on it is still stopping, with as much time as this one.
set "REFUSED=%5"
if "%CODE%"=="1051" set "REFUSED=%4"
call :await %4 %REFUSED% %6
if defined LATE goto stuck
call :sleep
goto owed
:stopped
set "DONE_%1=1"
exit /b 0
:stuck
>>"%RESULT%" echo @ResultWord.STUCK@ %STATE%- %CODE%- %EXIT%- %~2
set "STUCK=1"
exit /b 0
:stopping
call :state %2
if "%STATE%"=="1" goto idle
call :await %4 %5 %6
if defined LATE goto stuck
call :sleep
goto stopping
:idle
call :settle %2
exit /b 0
:gone
call :settle %2
set "SKIP_%1=1"
>>"%RESULT%" echo @ResultWord.GONE@ %~2
exit /b 0

:settle
"%REG%" delete "%NOTES%" /v "%~1" /f /reg:64 >nul 2>nul
exit /b 0

rem %1 number, %2 name, %3 seconds while it starts, %4 seconds while it does not, %5 seconds in total
:start
if defined SKIP_%1 exit /b 0
call :fresh
:poll
call :state %2
if "%STATE%"=="4" goto running
if "%STATE%"=="" goto gone
rem The import is older than the next process, even if the stop was late.
if "%STATE%"=="1" set "DONE_%1=1"
if "%STATE%"=="1" call :ask start %2
call :await %3 %4 %5
if defined LATE goto unstarted
call :sleep
goto poll
:running
if not defined DONE_%1 goto unrestarted
call :settle %2
>>"%RESULT%" echo @ResultWord.RESTARTED@ %~2
exit /b 0
:unrestarted
>>"%RESULT%" echo @ResultWord.OWED@ %~2
set "UNWELL=1"
exit /b 0
:unstarted
>>"%RESULT%" echo @ResultWord.UNSTARTED@ %STATE%- %CODE%- %EXIT%- %~2
set "DOWN=1"
set "UNWELL=1"
if not "%STATE%"=="2" exit /b 0
if defined MOVING set "MOVES_%1=1"
rem Its process is newer than the import: from now on the next pass only waits for it.
if defined DONE_%1 "%REG%" add "%NOTES%" /v "%~2" /t REG_SZ /d started /f /reg:64 >nul 2>nul
exit /b 0

@INSTALLING@
