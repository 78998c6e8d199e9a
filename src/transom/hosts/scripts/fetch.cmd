rem Fetches the endpoints with the environment of the services, one after the other, until one answers.
if not exist "%CURL%" goto nocurl
set "FETCHED="
@FETCHES@
goto fetched
:fetch
set "CODES=0 0"
echo fetching 1>&2
"%CURL%" -q -K "%HERE%\fetch-%1.txt" >"%HERE%\answer.txt" 2>nul
set "CODE=%ERRORLEVEL%"
if exist "%HERE%\answer.txt" for /f "usebackq tokens=1-3" %%a in ("%HERE%\answer.txt") do if "%%a"=="@MARK@" set "CODES=%%b %%c"
>>"%RESULT%" echo @ResultWord.FETCHED@ %1 %CODE% %CODES%
if "%CODE%"=="0" set "FETCHED=1"
exit /b 0
:nocurl
>>"%RESULT%" echo @ResultWord.NO_CURL@
:fetched
del /q "%HERE%\fetch-*.txt" "%HERE%\answer.txt" 2>nul
