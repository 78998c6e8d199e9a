"%REG%" add "@KEY@\Import" /v no_proxy /t REG_SZ /d before /f /reg:64 >nul 2>nul
"%REG%" import "%HERE%\whole.reg" /reg:64 >nul 2>nul
if errorlevel 1 echo refused
call :show no_proxy
call :show Text
call :show List
call :show Gone
"%REG%" import "%HERE%\cut.reg" /reg:64 >nul 2>nul
call :show Cut
"%REG%" delete "@KEY@\Import" /f /reg:64 >nul 2>nul
exit /b 0
:show
"%REG%" query "@KEY@\Import" /v %1 /reg:64 >value.txt 2>nul
for /f "usebackq tokens=1-3" %%a in (value.txt) do if /i "%%a"=="%1" echo %%a %%b %%c
exit /b 0
