"%SC%" create TransomVerify binPath= "%CMD% /d /c start /b %CMD% /d /c %HERE%\result.cmd" start= demand >nul 2>nul
if errorlevel 1 echo refused
"%REG%" add "@SERVICES@\TransomVerify" /v Environment /t REG_MULTI_SZ /d TRANSOM_VERIFY=seen /f /reg:64 >nul 2>nul
"%SC%" start TransomVerify >nul 2>nul
set "TRIES=0"
:wait
if exist "%HERE%\result.txt" goto told
set /a TRIES+=1
echo waiting 1>&2
if %TRIES% GTR 45 goto told
"%PING%" -n 2 127.0.0.1 >nul
goto wait
:told
type "%HERE%\result.txt" 2>nul
"%SC%" delete TransomVerify >nul 2>nul
