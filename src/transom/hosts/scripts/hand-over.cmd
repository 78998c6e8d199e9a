rem Programs that a session starts end with it. A task without a trigger continues, and writes nothing to the System log.
"%SCHTASKS%" /create /tn TransomRestart /xml "%HERE%\task.xml" /f >nul 2>nul
if errorlevel 1 goto byservice
rem Wine's schtasks reports success and does nothing.
"%SCHTASKS%" /query /tn TransomRestart >"%HERE%\task.txt" 2>nul
set "ENTERED="
for %%f in ("%HERE%\task.txt") do if %%~zf GTR 0 set "ENTERED=1"
if not defined ENTERED goto byservice
"%SCHTASKS%" /run /tn TransomRestart >nul 2>nul
if errorlevel 1 goto byservice
set "TRIES=0"
:begin
if exist "%HERE%\job-started" exit /b 0
echo starting 1>&2
set /a TRIES+=1
if %TRIES% GTR 20 goto byservice
if %TRIES% GTR 3 "%PING%" -n 2 127.0.0.1 >nul
goto begin

rem If Windows refuses the task: a service that never answers the SCM, which logs errors 7009 and 7000.
:byservice
"%SCHTASKS%" /delete /tn TransomRestart /f >nul 2>nul
set "TRIES=0"
:create
"%SC%" delete TransomRestart >nul 2>nul
"%SC%" create TransomRestart binPath= "%CMD% /d /c start /b %CMD% /d /c %HERE%\change.cmd job service" start= demand >nul 2>nul
if not errorlevel 1 goto created
set /a TRIES+=1
if %TRIES% GTR 10 goto nojob
"%PING%" -n 2 127.0.0.1 >nul
goto create
:created
"%SC%" start TransomRestart >nul 2>nul
set "TRIES=0"
:beginning
if exist "%HERE%\job-started" goto begun
echo starting 1>&2
set /a TRIES+=1
if %TRIES% GTR 60 goto nojob
if %TRIES% GTR 3 "%PING%" -n 2 127.0.0.1 >nul
goto beginning
rem The task may have started after all; then the service has nothing to do.
:begun
if exist "%HERE%\job-task.txt" call :withdraw
exit /b 0
