"%SCHTASKS%" /create /tn TransomVerify /xml "%HERE%\task.xml" /f >nul 2>nul
if errorlevel 1 goto refused
"%SCHTASKS%" /query /tn TransomVerify >task.txt 2>nul
for %%f in (task.txt) do if %%~zf EQU 0 goto refused
"%SCHTASKS%" /run /tn TransomVerify >nul 2>nul
if errorlevel 1 echo not-run
set "TRIES=0"
:wait
if exist "%HERE%\begun.txt" goto begun
set /a TRIES+=1
echo waiting 1>&2
if %TRIES% GTR 20 goto ended
"%PING%" -n 2 127.0.0.1 >nul
goto wait
:begun
"%SCHTASKS%" /delete /tn TransomVerify /f >nul 2>nul
"%SCHTASKS%" /query /tn TransomVerify >nul 2>nul
if errorlevel 1 echo deleted
set "TRIES=0"
:going
if exist "%HERE%\ran.txt" goto ended
set /a TRIES+=1
echo waiting 1>&2
if %TRIES% GTR 20 goto ended
"%PING%" -n 2 127.0.0.1 >nul
goto going
:ended
if exist "%HERE%\ran.txt" echo ran
"%SCHTASKS%" /delete /tn TransomVerify /f >nul 2>nul
exit /b 0
:refused
echo not-taken
