rem An earlier version left a directory where every user can create directories. If an administrator owns it, it is removed
rem without being read. First it is moved to a place that other users do not know, which works only while no file in it is open.
rem A link is removed without its target.
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
