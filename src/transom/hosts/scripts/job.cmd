rem Stops and starts services, whether or not anybody is connected; its last act is to let go of the host.
:job
set "NOTES=@RESTARTS@"
set "RESULT=%HERE%\restarts.txt"
set "STUCK="
set "UNWELL="
set "DOWN="
set "LOST="
set "WAITED=0"
if not exist "%LOCK%\%PASS%" exit
rem Two may have been asked, a task and a service: the one that finds the ticket.
ren "%HERE%\task.xml" job-%~2.txt 2>nul
if not exist "%HERE%\job-%~2.txt" exit
call :restart >"%LOCK%\job"
del "%HERE%\*.reg" "%LOCK%\job" 2>nul
if "%~2"=="task" "%SCHTASKS%" /delete /tn TransomRestart /f >nul 2>nul
if "%~2"=="service" "%SC%" delete TransomRestart >nul 2>nul
:leave
rem One line, for without the lock this script may be removed: cmd reads a script line by line.
(ren "%LOCK%" %VOID% 2>nul & if not exist "%LOCK%\%PASS%" (rmdir /s /q "%BASE%\%VOID%" & exit))
set /a WAITED+=1
if %WAITED% GTR 60 exit
"%PING%" -n 2 127.0.0.1 >nul
goto leave

:restart
if not exist "%LOCK%\%PASS%" exit
>"%HERE%\job-started" echo %PASS%
>"%RESULT%" echo @Word.BEGUN@
@FLAGS@
@STOPS@
@INSTALL@
:starts
@STARTS@
@SETTLE@
@FORGET@
>>"%RESULT%" echo @Word.ENDED@
exit /b 0

rem STATE: the number on the third line that sc query prints (its words are translated); empty: no such service.
rem EXIT: that on the fourth, with which the service ended; 1066 refers to the service's own, on the fifth.
:state
set "STATE="
set "EXIT="
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
exit /b 0

:sleep
if %TRIES% GTR 3 "%PING%" -n 2 127.0.0.1 >nul
exit /b 0

rem %1 stop or start, %2 name: now, and then every ten seconds, for the SCM may keep who asks waiting.
:ask
if %TRIES% LSS %NEXT% exit /b 0
if %TRIES% GTR 1 set /a NEXT=TRIES+10
"%SC%" %1 "%~2" >nul 2>nul
exit /b 0

rem %1 number, %2 name, %3 note, %4 seconds
:stop
set "TRIES=0"
set "NEXT=0"
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
set /a TRIES+=1
if "%STATE%"=="1" goto stopped
if "%STATE%"=="" goto gone
if %TRIES% GTR %4 goto stuck
call :sleep
goto owed
:stopped
set "DONE_%1=1"
exit /b 0
:stuck
>>"%RESULT%" echo @Word.STUCK@ %STATE% %~2
set "STUCK=1"
set "UNWELL=1"
exit /b 0
:stopping
call :state %2
set /a TRIES+=1
if "%STATE%"=="1" goto idle
if %TRIES% GTR %4 goto stuck
call :sleep
goto stopping
:idle
call :settle %2
exit /b 0
:gone
call :settle %2
set "SKIP_%1=1"
>>"%RESULT%" echo @Word.GONE@ %~2
exit /b 0

:settle
"%REG%" delete "%NOTES%" /v "%~1" /f /reg:64 >nul 2>nul
exit /b 0

rem %1 number, %2 name, %3 seconds
:start
if defined SKIP_%1 exit /b 0
set "TRIES=0"
set "NEXT=0"
:poll
call :state %2
if "%STATE%"=="4" goto running
if "%STATE%"=="" goto gone
if "%STATE%"=="1" call :ask start %2
set /a TRIES+=1
if %TRIES% GTR %3 goto unstarted
call :sleep
goto poll
:running
if not defined DONE_%1 exit /b 0
call :settle %2
>>"%RESULT%" echo @Word.RESTARTED@ %~2
exit /b 0
:unstarted
>>"%RESULT%" echo @Word.UNSTARTED@ %STATE% %~2
set "DOWN=1"
set "UNWELL=1"
exit /b 0

@INSTALLING@
