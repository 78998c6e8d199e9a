mkdir "%OWN%\held" 2>nul
call :hold >"%OWN%\held\held.txt"
del /q "%OWN%\held\held.txt" "%OWN%\freed\held.txt" 2>nul
rmdir "%OWN%\held" 2>nul
rmdir "%OWN%\freed" 2>nul
type "%HERE%\seen.txt"
exit /b 0
rem The output goes to the file that is kept open.
:hold
del "%OWN%\held\held.txt" 2>nul
if exist "%OWN%\held\held.txt" >>"%HERE%\seen.txt" echo file-kept
ren "%OWN%\held" freed 2>nul
if exist "%OWN%\held\held.txt" >>"%HERE%\seen.txt" echo directory-kept
exit /b 0
