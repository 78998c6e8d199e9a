rem What an earlier version left where everybody may make directories goes unread, where it is an administrator's. First it is
rem moved to where nobody else finds it, which works only while nobody has anything of it open; there a link goes without what
rem it leads to.
:former
if exist "@FORMER@\" call :aside
for /d %%d in (%BASE%\f-*) do call :bury "%%d"
exit /b 0
:aside
echo removing 1>&2
@WHOSE@
if errorlevel 1 exit /b 0
move /y "@FORMER@" "%BASE%\f-@TAG@-@ID@" >nul 2>nul
exit /b 0
:bury
rmdir "%~1" 2>nul
if not exist "%~1\" exit /b 0
echo removing 1>&2
@BURIED@
if not errorlevel 1 rmdir /s /q "%~1" 2>nul
exit /b 0
