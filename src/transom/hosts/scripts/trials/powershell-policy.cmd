echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "Get-ExecutionPolicy -List | ForEach-Object { 'scope ' + $_.Scope + ' ' + $_.ExecutionPolicy }"
echo values @POLICY@
"%REG%" query "@POLICY@" /reg:64 2>nul
echo values @MACHINE@
"%REG%" query "@MACHINE@" /reg:64 2>nul
