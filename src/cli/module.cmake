# What `sightline smoke-test` sends travels inside the program.
sightline_embed(sightline_cli smoke_picture ${PROJECT_SOURCE_DIR}/assets/car.png)
