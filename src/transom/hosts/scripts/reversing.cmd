rem Checks that the previous version runs, and continues to run for a while.
:steady
set "LOOKS=0"
:looking
@LOOKS@
if defined LOST exit /b 0
set /a LOOKS+=1
if %LOOKS% GTR @STEADY@ exit /b 0
"%PING%" -n 2 127.0.0.1 >nul
goto looking

rem %1 number, %2 name; a service whose checkpoint increases is still starting
:alive
if defined SKIP_%1 exit /b 0
if defined MOVES_%1 exit /b 0
call :state %2
if "%STATE%"=="4" exit /b 0
set "LOST=1"
>>"%RESULT%" echo @ResultWord.LOST@ %STATE%- %EXIT%- %~2
exit /b 0

:keep
set "UNWELL="
call :finish
if defined DOWN set "UNWELL=1"
exit /b 0

rem Restores the host: removes what was created, restores names and values of what was replaced, and starts the services.
:reverse
>>"%RESULT%" echo @ResultWord.REVERSING@
set "UNWELL="
@OWED@
@HALTS@
@REVERSAL@
if not exist "%HERE%\former.reg" goto reverted
"%REG%" import "%HERE%\former.reg" /reg:64 >nul 2>nul
if errorlevel 1 set "UNWELL=1"
del "%HERE%\former.reg" 2>nul
:reverted
if not defined UNWELL if exist "%HERE%\former-ledger.reg" "%REG%" import "%HERE%\former-ledger.reg" /reg:64 >nul 2>nul
@AGAIN@
>>"%RESULT%" echo @ResultWord.REVERSED@
exit /b 0

rem %1 number, %2 name: the ledger has the note before the service is stopped
:owe
if not defined SKIP_%1 "%REG%" add "%NOTES%" /v "%~2" /t REG_SZ /d running /f /reg:64 >nul 2>nul
exit /b 0

rem %1 number, %2 name, %3 to %5 as those of :stop
:halt
if defined SKIP_%1 exit /b 0
call :stop %1 %2 running %3 %4 %5
if defined STUCK set "UNWELL=1"
set "SKIP_%1="
exit /b 0

rem %1 number, %2 path
:unplace
if exist "%~2.transom-old-@ID@" goto former
if exist "%HERE%\aside-%1" call :remove %2 back
if exist "%HERE%\new-%1" call :remove %2 -
exit /b 0
:former
del "%~2" 2>nul
if exist "%~2" ren "%~2" "%~nx2.transom-old-@ID@-new" 2>nul
if not exist "%~2" ren "%~2.transom-old-@ID@" "%~nx2" 2>nul
if not exist "%~2.transom-old-@ID@" exit /b 0
>>"%RESULT%" echo @ResultWord.UNRESTORED@ %~2
set "UNWELL=1"
exit /b 0
