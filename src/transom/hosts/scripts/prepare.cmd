set "BOOT_FOR="
set "FAILED="
@STEPS@
if defined FAILED exit /b 0
if defined BOOT_FOR goto pending
"%REG%" import "%HERE%\prepared.reg" /reg:64 >nul 2>nul
if errorlevel 1 goto notimported
exit /b 0
:pending
"%REG%" import "%HERE%\pending.reg" /reg:64 >nul 2>nul
if errorlevel 1 goto notimported
>>"%RESULT%" echo @ResultWord.MUST_BOOT@ %BOOT_FOR%
exit /b 0
