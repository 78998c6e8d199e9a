rem Keeps the new version if it runs, or restores the previous one.
if defined STUCK goto settled
call :steady
if defined LOST goto undone
call :keep
goto settled
:undone
call :reverse
:settled
