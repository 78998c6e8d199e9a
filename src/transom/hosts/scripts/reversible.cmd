rem Whether the new version stays, or the former one comes back.
if defined STUCK goto settled
call :steady
if defined LOST goto undone
call :keep
goto settled
:undone
call :reverse
:settled
