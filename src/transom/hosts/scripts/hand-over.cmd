set "TRIES=0"
:create
"%SC%" delete TransomRestart >nul 2>nul
"%SC%" create TransomRestart binPath= "%CMD% /d /c start /b %CMD% /d /c %HERE%\change.cmd job" start= demand >nul 2>nul
if not errorlevel 1 goto created
set /a TRIES+=1
if %TRIES% GTR 10 goto nojob
"%PING%" -n 2 127.0.0.1 >nul
goto create
:created
"%SC%" start TransomRestart >nul 2>nul
set "TRIES=0"
:begin
if exist "%HERE%\job-started" exit /b 0
echo starting 1>&2
set /a TRIES+=1
if %TRIES% GTR 60 goto nojob
if %TRIES% GTR 3 "%PING%" -n 2 127.0.0.1 >nul
goto begin
