rem %1 a file that was sent, %2 the hash that it must have
:verify
set "STAGED=%BASE%\%~1"
if not exist "%STAGED%" goto unsent
"%SystemRoot%\System32\certutil.exe" -hashfile "%STAGED%" SHA256 >"%HERE%\hash.txt" 2>nul
set "SAME="
for /f "usebackq delims=" %%a in ("%HERE%\hash.txt") do if /i "%%a"=="%~2" set "SAME=1"
if not defined SAME goto mismatch
exit /b 0
:unsent
set "BAD=1"
>>"%RESULT%" echo unsent %~2
exit /b 0
:mismatch
set "BAD=1"
del "%STAGED%" 2>nul
>>"%RESULT%" echo mismatch %~2
exit /b 0
