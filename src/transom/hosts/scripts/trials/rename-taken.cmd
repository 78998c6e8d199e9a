mkdir "%OWN%\first" "%OWN%\second"
ren "%OWN%\first" second 2>nul
if exist "%OWN%\first\" echo kept
ren "%OWN%\first" third 2>nul
if exist "%OWN%\third\" echo renamed
rmdir "%OWN%\first" 2>nul
rmdir "%OWN%\second" 2>nul
rmdir "%OWN%\third" 2>nul
