rem Prints which Windows this is. Only the simulator and Wine have these two programs (Wine: programs/winecfg).
if exist "%SystemRoot%\System32\winsim.exe" echo stand-in simulated
if exist "%SystemRoot%\System32\winecfg.exe" echo stand-in Wine
"%REG%" query "HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows NT\CurrentVersion" /v EditionID /reg:64 2>nul
"%REG%" query "HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Nls\Language" /v InstallLanguage /reg:64 2>nul
