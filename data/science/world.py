"""The science world: things, what is true of them, and how that is said.

A *kind* is one relation, such as `made_of`. It has *values* (steel, glass, ...), *properties* that are true of some
of its values and false of the rest, and *things* that each have one value. Two sentences make a proof:

    core fact   a nail is made of steel         (about a thing; a user can teach it)
    rule        steel conducts electricity      (about a value; general knowledge)
    hypothesis  a nail conducts electricity
"""

from relations import Kind, confusions, prop, table

MADE_OF = Kind(
    "made_of", "materials", "object",
    ("{x} is made of {v}", "{x} consists of {v}"),
    ("{v}", "everything made of {v}"),
    confusions("""
        steel: plastic wood
        copper: stone wood steel
        wood: plastic stone
        glass: plastic stone
        rubber: cotton plastic
        plastic: glass wood
        cotton: plastic rubber
        stone: wood glass"""),
    (
        prop("electricity", "steel copper",
             "conducts electricity | lets an electric current flow through it",
             "does not conduct electricity | stops an electric current"),
        prop("magnet", "steel",
             "sticks to a magnet | is pulled by a magnet",
             "does not stick to a magnet | is left alone by a magnet"),
        prop("float", "wood plastic rubber",
             "floats on water | stays on top of a lake",
             "sinks in water | drops to the bottom of a lake"),
        prop("burn", "wood cotton rubber plastic",
             "burns in a fire | catches fire near a flame",
             "does not burn in a fire | is safe from burning near a flame"),
        prop("bend", "rubber cotton plastic",
             "bends easily | can be folded by hand",
             "is stiff | cannot be folded by hand"),
        prop("living", "wood rubber cotton",
             "comes from a living thing | was once part of nature that grew",
             "does not come from a living thing | was never part of nature that grew"),
        prop("melt", "steel copper glass plastic",
             "can be melted and cast | turns liquid in a hot furnace",
             "cannot be melted and cast | never turns liquid in a hot furnace"),
    ),
    table("""
        steel: nail bolt anvil chain wrench sword rail needle
        copper: penny kettle coil cable gong cauldron pipe bracelet
        wood: log bench crate oar fence barrel canoe violin
        glass: window jar lens mirror goblet prism aquarium beaker
        rubber: tire eraser hose balloon gasket stopper flipper bumper
        plastic: comb bucket straw ruler bottle toothbrush frisbee funnel
        cotton: towel shirt sock bandage curtain handkerchief apron napkin
        stone: statue pyramid millstone tombstone obelisk pillar castle dolmen"""),
)

# animal: class, habitat, food
ANIMALS = """
    camel mammal desert grass
    jerboa mammal desert seeds
    fennec mammal desert mice
    meerkat mammal desert insects
    gazelle mammal savanna grass
    zebra mammal savanna grass
    serval mammal savanna mice
    aardvark mammal savanna insects
    tapir mammal rainforest fruit
    orangutan mammal rainforest fruit
    gibbon mammal rainforest fruit
    capybara mammal pond grass
    otter mammal pond fish
    dolphin mammal ocean fish
    porpoise mammal ocean fish
    seal mammal ocean fish
    manatee mammal ocean grass
    ermine mammal arctic mice
    lemming mammal arctic grass
    bat mammal rainforest fruit
    ostrich bird savanna seeds
    kestrel bird savanna mice
    finch bird savanna seeds
    hornbill bird savanna fruit
    puffin bird ocean fish
    pelican bird ocean fish
    albatross bird ocean fish
    heron bird pond fish
    kingfisher bird pond fish
    roadrunner bird desert insects
    quail bird desert seeds
    toucan bird rainforest fruit
    macaw bird rainforest seeds
    ptarmigan bird arctic seeds
    goose bird arctic grass
    iguana reptile rainforest fruit
    python reptile rainforest mice
    chameleon reptile rainforest insects
    caiman reptile rainforest fish
    tortoise reptile desert grass
    gecko reptile desert insects
    viper reptile desert mice
    cobra reptile savanna mice
    terrapin reptile pond fish
    frog amphibian pond insects
    newt amphibian pond insects
    bullfrog amphibian pond mice
    axolotl amphibian pond fish
    toad amphibian savanna insects
    spadefoot amphibian desert insects
    salamander amphibian pond insects
    tuna fish ocean fish
    shark fish ocean fish
    barracuda fish ocean fish
    pike fish pond fish
    trout fish pond insects
    carp fish pond seeds
    cod fish arctic fish
    pacu fish rainforest fruit
    lungfish fish savanna insects
    locust insect savanna grass
    termite insect savanna grass
    weevil insect savanna seeds
    ant insect desert seeds
    mantis insect rainforest insects
    butterfly insect rainforest fruit
    dragonfly insect pond insects
"""


def animals(column):
    rows = (line.split() for line in ANIMALS.strip().splitlines())
    return {row[0]: row[column] for row in rows}


KIND_OF = Kind(
    "kind_of", "animals", "animal",
    ("{x} is a kind of {v}", "{x} is {av}"),
    ("{av}", "every {v}"),
    confusions("""
        mammal: fish bird
        bird: mammal reptile
        reptile: amphibian fish
        amphibian: reptile fish
        fish: mammal reptile
        insect: bird amphibian"""),
    (
        prop("backbone", "mammal bird reptile amphibian fish",
             "has a backbone | has bones along its back",
             "has no backbone | has no bones along its back"),
        prop("warm", "mammal bird",
             "keeps its body warm by itself | stays warm in cold air",
             "takes its warmth from its surroundings | becomes cold in cold air"),
        prop("lungs", "mammal bird reptile amphibian",
             "breathes with lungs | fills its lungs with air",
             "does not breathe with lungs | has no lungs to fill with air"),
        prop("scales", "reptile fish",
             "is covered with scales | is protected by scaly skin",
             "has no scales | is not protected by scaly skin"),
        prop("eggs", "amphibian fish",
             "has young that start life in water | begins its life under water",
             "has young that start life on land | begins its life out of water"),
        prop("wings", "bird insect",
             "has wings | carries wings on its body",
             "has no wings | carries no wings on its body"),
    ),
    animals(1),
)

LIVES_IN = Kind(
    "lives_in", "habitats", "animal",
    ("{x} lives in the {v}", "{x} makes its home in the {v}"),
    ("an animal that lives in the {v}", "whatever lives in the {v}"),
    confusions("""
        desert: pond rainforest
        rainforest: savanna arctic
        ocean: pond arctic
        pond: ocean savanna
        savanna: rainforest pond
        arctic: ocean desert"""),
    (
        prop("dry", "desert savanna",
             "has to survive with little water | gets thirsty for weeks",
             "has plenty of water or ice around it | is never short of water or ice"),
        prop("swim", "ocean pond",
             "needs water to move around | swims to get from place to place",
             "moves around on land or in the air | gets from place to place without swimming"),
        prop("plants", "desert arctic",
             "finds few green plants nearby | sees bare ground nearly everywhere",
             "finds many green plants nearby | seldom sees bare ground"),
        prop("heat", "desert savanna rainforest",
             "has to stand great heat | must cool its body at noon",
             "never has to stand great heat | does not have to cool its body at noon"),
        prop("drought", "pond savanna rainforest",
             "is harmed when rain stays away | loses its food after a long drought",
             "is unharmed when rain stays away | keeps its food after a long drought"),
    ),
    animals(2),
)

EATS = Kind(
    "eats", "food", "animal",
    ("{x} eats {v}", "{x} feeds on {v}"),
    ("an animal that eats {v}", "whatever feeds on {v}"),
    confusions("""
        grass: fruit fish
        seeds: insects grass
        fish: grass insects
        insects: seeds fruit
        fruit: mice insects
        mice: fruit grass"""),
    (
        prop("plants", "grass seeds fruit",
             "is a plant eater | depends on plants for its meals",
             "is a hunter | depends on other animals for its meals"),
        prop("spread", "seeds fruit",
             "helps plants to spread | carries plants to new places",
             "does not help plants to spread | carries no plants to new places"),
        prop("grind", "grass seeds",
             "has to grind its food | crushes its meals well before swallowing",
             "does not have to grind its food | swallows its meals nearly whole"),
        prop("farmer", "insects mice",
             "helps farmers by eating pests | is a welcome guest on a field",
             "does not help farmers against pests | is no welcome guest on a field"),
        prop("winter", "grass insects fruit",
             "finds little food in winter | goes hungry when snow falls",
             "finds enough food in winter | still has meals when snow falls"),
    ),
    animals(3),
)

RUNS_ON = Kind(
    "runs_on", "energy", "device",
    ("{x} runs on {v}", "{x} gets its power from {v}"),
    ("a device that runs on {v}", "whatever gets its power from {v}"),
    confusions("""
        batteries: sunlight mains
        sunlight: gasoline mains
        gasoline: wind mains
        wind: gasoline batteries
        mains: sunlight muscles
        muscles: batteries wind"""),
    (
        prop("renewable", "sunlight wind muscles",
             "uses energy that is renewed by nature | can go on without using up a fuel",
             "uses energy that can run out | uses up a fuel or a store of energy"),
        prop("weather", "sunlight wind",
             "depends on the weather | may stand still when the weather changes",
             "works in any weather | goes on when the weather changes"),
        prop("refill", "batteries gasoline",
             "has to be filled or charged again | is useless once its store is empty",
             "never has to be filled or charged again | has no store that gets empty"),
        prop("cave", "batteries gasoline muscles",
             "works deep inside a tunnel | can be used far under the ground",
             "does not work deep inside a tunnel | cannot be used far under the ground"),
        prop("current", "batteries mains sunlight",
             "uses an electric current | has electricity in its wires",
             "uses no electric current | has no electricity in it"),
    ),
    table("""
        batteries: flashlight watch camera drone phone pacemaker megaphone stopwatch
        sunlight: calculator satellite rover buoy probe spacecraft
        gasoline: chainsaw motorcycle lawnmower tractor truck generator snowmobile speedboat
        wind: sailboat windmill pinwheel turbine weathervane schooner
        mains: toaster oven refrigerator dishwasher freezer elevator printer television
        muscles: bicycle rowboat handsaw wheelbarrow skateboard unicycle loom nutcracker"""),
)

KINDS = (MADE_OF, KIND_OF, LIVES_IN, EATS, RUNS_ON)
