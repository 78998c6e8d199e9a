rem %1 number, %2 path, %3 size of the file that was read, or new; %4 the value of the ledger to delete afterwards, or -.
rem The file is written in place, so that it keeps its access list. Without content it is deleted.
:write
set "TRIES=0"
if "%~3"=="new" goto new
if not exist "%~2" goto unwritten
for %%f in ("%~2") do if not %%~zf EQU %~3 goto unwritten
goto writing
:new
if exist "%~2" goto unwritten
:writing
if not exist "%HERE%\write-%1.txt" goto deleting
copy /y /b "%HERE%\write-%1.txt" "%~2" >nul 2>nul
if not errorlevel 1 goto written
goto rewrite
:deleting
del "%~2" 2>nul
if not exist "%~2" goto written
:rewrite
rem A virus scanner may be reading it.
set /a TRIES+=1
echo waiting 1>&2
if %TRIES% GTR 5 goto unwritten
"%PING%" -n 2 127.0.0.1 >nul
goto writing
:written
if not "%~4"=="-" "%REG%" delete "@LEDGER@" /v "%~4" /f /reg:64 >nul 2>nul
exit /b 0
:unwritten
>"%HERE%\unwritten.txt" echo %~2
>>"%RESULT%" echo @ResultWord.UNWRITTEN@ %~2
exit /b 0
