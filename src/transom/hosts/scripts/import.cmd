"%REG%" import "%HERE%\change.reg" /reg:64 >nul 2>nul
if errorlevel 1 goto notimported
del "%HERE%\change.reg" 2>nul
