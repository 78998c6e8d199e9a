rem %1 file: identifies this boot. If Windows does not count boots: a value of a key in memory, which the next boot deletes.
:boot
"%REG%" query "@BOOT@" /v BootId /reg:64 >"%~1" 2>nul
if not errorlevel 1 exit /b 0
"%REG%" query "@BOOTMARK@" /v TransomBoot /reg:64 >"%~1" 2>nul
if not errorlevel 1 exit /b 0
set /a BOOTMARK=%RANDOM%*32768+%RANDOM%
"%REG%" add "@BOOTMARK@" /v TransomBoot /t REG_DWORD /d %BOOTMARK% /f /reg:64 >nul 2>nul
"%REG%" query "@BOOTMARK@" /v TransomBoot /reg:64 >"%~1" 2>nul
if errorlevel 1 exit /b 1
exit /b 0
