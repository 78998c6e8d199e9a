"%POWERSHELL%" -NoProfile -NonInteractive -Command "'path ' + $PROFILE.AllUsersAllHosts"
