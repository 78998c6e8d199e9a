"%REG%" import "%HERE%\certificate.reg" /reg:64 >nul 2>nul
if errorlevel 1 echo refused
echo checking 1>&2
"%SystemRoot%\System32\certutil.exe" -store Root @THUMBPRINT@
"%REG%" delete "@STORE@\@THUMBPRINT@" /f /reg:64 >nul 2>nul
