for /f "usebackq delims=" %%a in ("%HERE%\image.txt") do "%SC%" create TransomVerify binPath= "%%a" start= demand >nul 2>nul
if errorlevel 1 echo refused
"%REG%" query "@SERVICES@\TransomVerify" /v ImagePath /reg:64 >image.out 2>nul
for /f "usebackq tokens=1,2,*" %%a in (image.out) do if /i "%%a"=="ImagePath" >shown.txt echo "%%c"
type shown.txt
call :delete
"%SC%" query TransomVerify >nul 2>nul
if not errorlevel 1 echo stays
exit /b 0
:delete
set "TRIES=0"
:again
"%SC%" delete TransomVerify >nul 2>nul
"%SC%" query TransomVerify >nul 2>nul
if errorlevel 1 exit /b 0
set /a TRIES+=1
echo waiting 1>&2
if %TRIES% GTR 30 exit /b 0
"%PING%" -n 2 127.0.0.1 >nul
goto again
