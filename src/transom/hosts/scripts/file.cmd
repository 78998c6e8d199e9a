rem %1 name, %2 path: a small file, byte for byte
:file
type nul >%1.err
if not exist "%~2" goto missing
if exist "%~2\*" goto uncopied
set "FITS="
for %%f in ("%~2") do if %%~zf LEQ @LIMIT@ set "FITS=1"
if not defined FITS goto uncopied
copy /y /b "%~2" %1.txt >nul 2>nul
if errorlevel 1 goto uncopied
call :part %1.txt
exit /b 0
:uncopied
>%1.err echo @IndexEntry.MISSING@
goto missing
