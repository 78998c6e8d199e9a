if exist "@PROFILE@" goto taken
copy /y /b "%HERE%\profile.txt" "@PROFILE@" >nul 2>nul
if not exist "@PROFILE@" echo refused
echo checking 1>&2
"%POWERSHELL%" -NonInteractive -Command "'policy ' + (Get-ExecutionPolicy); 'with ' + [System.Net.WebRequest]::DefaultWebProxy.GetProxy('https://example.com/').AbsoluteUri"
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "'mode ' + $ExecutionContext.SessionState.LanguageMode; 'without ' + [System.Net.WebRequest]::DefaultWebProxy.GetProxy('https://example.com/').AbsoluteUri"
echo checking 1>&2
"%POWERSHELL%" -NoProfile -NonInteractive -Command "if ((Get-Acl -LiteralPath '@PROFILE@').Sddl -notmatch '\(A;ID;0x1200a9;;;BU\)') { exit 1 }" >nul 2>nul
if not errorlevel 1 echo readable
del "@PROFILE@" 2>nul
exit /b 0
:taken
echo taken
