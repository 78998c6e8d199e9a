rem Creates what is required.
:install
@STEPS@
if not exist "%HERE%\install.reg" exit /b 0
"%REG%" import "%HERE%\install.reg" /reg:64 >nul 2>nul
if not errorlevel 1 goto imported
>>"%RESULT%" echo @ResultWord.NOT_IMPORTED@
set "UNWELL=1"
:imported
del "%HERE%\install.reg" 2>nul
exit /b 0

rem Removes the rest; the ledger drops it if there was no error.
:finish
@FINISH@
if defined UNWELL exit /b 0
if exist "%HERE%\ledger.reg" "%REG%" import "%HERE%\ledger.reg" /reg:64 >nul 2>nul
exit /b 0

rem %1 program: Defender, if it runs, does not scan the files that it opens. A policy can forbid it; then pulls take longer.
:exclude
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if (Get-Process -Name 'MsMpEng' -ErrorAction SilentlyContinue) { Add-MpPreference -ExclusionProcess '%~1' }" >nul 2>nul
exit /b 0
:include
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if (Get-Process -Name 'MsMpEng' -ErrorAction SilentlyContinue) { Remove-MpPreference -ExclusionProcess '%~1' }" >nul 2>nul
exit /b 0

rem %1 directory: removes files that were in use when they were replaced
:sweep
del /q "%~1\*.transom-old-*" 2>nul
exit /b 0

rem %1 path; %2 closed (SYSTEM and Administrators only), open (Users can read and list; new files have the access that they would
rem have below C:\), inherit (below a closed one); %3 check: other users can create directories there. It gets its access list in
rem a closed directory, and is then moved to its path.
:directory
if exist "%~1\" goto owned
if "%~2"=="inherit" mkdir "%~1" 2>nul
if "%~2"=="inherit" goto made
mkdir "%HERE%\made" 2>nul
set "GRANT=*S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F"
if "%~2"=="open" set "GRANT=%GRANT% *S-1-5-32-545:(OI)(CI)RX *S-1-3-0:(OI)(CI)(IO)F"
"%ICACLS%" "%HERE%\made" /setowner *S-1-5-32-544 >nul 2>nul
"%ICACLS%" "%HERE%\made" /inheritance:r /grant:r %GRANT% >nul 2>nul
if errorlevel 1 goto nodirectory
if not "%~2"=="open" goto listed
"%ICACLS%" "%HERE%\made" /grant *S-1-5-32-545:(CI)(IO)(WD,AD) >nul 2>nul
if errorlevel 1 goto nodirectory
:listed
move /y "%HERE%\made" "%~1" >nul 2>nul
:made
if not exist "%~1\" goto nodirectory
:owned
if not "%~3"=="check" exit /b 0
@OWNER@
if not errorlevel 1 exit /b 0
>>"%RESULT%" echo @ResultWord.FOREIGN@ %~1
set "FOREIGN=1"
set "UNWELL=1"
exit /b 0
:nodirectory
rmdir "%HERE%\made" 2>nul
>>"%RESULT%" echo @ResultWord.NO_DIRECTORY@ %~1
set "UNWELL=1"
exit /b 0

rem %1 number, %2 the file that was sent, %3 path, %4 aside: the file from before the first change is kept
:place
set "STAGED=%BASE%\%~2"
if exist "%~3" goto occupied
>"%HERE%\new-%1" echo %1
goto free
:occupied
if not "%~4"=="aside" goto old
if exist "%~3.transom-before" goto old
ren "%~3" "%~nx3.transom-before" 2>nul
if exist "%~3" goto unplaced
>"%HERE%\aside-%1" echo %1
goto free
rem A replaced file is renamed, which also works for a program in use, and is removed when its successor runs.
:old
ren "%~3" "%~nx3.transom-old-@ID@" 2>nul
:free
if exist "%~3" goto unplaced
move /y "%STAGED%" "%~3" >nul 2>nul
if exist "%~3" exit /b 0
if exist "%~3.transom-old-@ID@" ren "%~3.transom-old-@ID@" "%~nx3" 2>nul
:unplaced
>>"%RESULT%" echo @ResultWord.UNPLACED@ %~3
set "UNWELL=1"
exit /b 0

rem %1 path, %2 back: restores the name of the kept file
:remove
del "%~1" 2>nul
if exist "%~1" ren "%~1" "%~nx1.transom-old-@ID@" 2>nul
if exist "%~1" goto unremoved
if not "%~2"=="back" exit /b 0
if exist "%~1.transom-before" ren "%~1.transom-before" "%~nx1" 2>nul
exit /b 0
:unremoved
>>"%RESULT%" echo @ResultWord.UNREMOVED@ %~1
set "UNWELL=1"
exit /b 0

rem %1 number, %2 name, %3 auto or demand, %4 its dependencies (a/b), or /
:service
set "TRIES=0"
set "DEPEND=depend= %~4"
if "%~4"=="/" set "DEPEND="
:serving
for /f "usebackq delims=" %%a in ("%HERE%\image-%1.txt") do "%SC%" create "%~2" binPath= "%%a" start= %3 %DEPEND% >nul 2>nul
"%SC%" query "%~2" >nul 2>nul
if not errorlevel 1 exit /b 0
rem A deleted service of that name is removed when no program has it open any more.
set /a TRIES+=1
if %TRIES% GTR 20 goto uncreated
"%PING%" -n 2 127.0.0.1 >nul
goto serving
:uncreated
>>"%RESULT%" echo @ResultWord.UNCREATED@ %~2
set "UNWELL=1"
exit /b 0

rem %1 name, %2 milliseconds before each restart
:failure
"%SC%" failure "%~1" reset= 86400 actions= restart/%2/restart/%2/restart/%2 >nul 2>nul
"%SC%" failureflag "%~1" 1 >nul 2>nul
exit /b 0

rem As :service; a service that cannot be reconfigured is created again, with all values of its key.
:configure
for /f "usebackq delims=" %%a in ("%HERE%\image-%1.txt") do "%SC%" config "%~2" binPath= "%%a" start= %3 depend= %4 >nul 2>nul
if not errorlevel 1 exit /b 0
"%REG%" export "@SERVICES@\%~2" "%HERE%\kept.reg" /y /reg:64 >nul 2>nul
call :delete %2
call :service %1 %2 %3 %4
"%REG%" import "%HERE%\kept.reg" /reg:64 >nul 2>nul
del "%HERE%\kept.reg" 2>nul
exit /b 0

:delete
set "TRIES=0"
:deleting
"%SC%" delete "%~1" >nul 2>nul
"%SC%" query "%~1" >nul 2>nul
if errorlevel 1 exit /b 0
set /a TRIES+=1
if %TRIES% GTR 30 goto undeleted
"%PING%" -n 2 127.0.0.1 >nul
goto deleting
:undeleted
>>"%RESULT%" echo @ResultWord.UNDELETED@ %~1
set "UNWELL=1"
exit /b 0
